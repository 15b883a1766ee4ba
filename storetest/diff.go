package storetest

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/einmal-dev/einmal"
)

// same checks a record against what it must be. Seq, Now and At are the store's and not compared; instants may be off by slack, but a zero one is zero.
// An empty list or body is as good as a nil one. Where several are allowed, it must be one of them.
func (e *env) same(what string, got einmal.Record, allowed ...einmal.Record) {
	var found []string
	for _, want := range allowed {
		if found = differences(got, want); len(found) == 0 {
			return
		}
	}
	e.see("%s: %s", what, strings.Join(found, "; "))
}

// equal is same for any two values.
func (e *env) equal(what string, got, want any) {
	if found := diff(nil, "", reflect.ValueOf(got), reflect.ValueOf(want)); len(found) > 0 {
		e.see("%s: %s", what, strings.Join(found, "; "))
	}
}

func differences(got, want einmal.Record) []string {
	got.Seq, got.Now, got.At = want.Seq, want.Now, want.At
	return diff(nil, "", reflect.ValueOf(got), reflect.ValueOf(want))
}

var instant = reflect.TypeFor[time.Time]()

func diff(found []string, path string, got, want reflect.Value) []string {
	tell := func() []string { return append(found, fmt.Sprintf("%s is %s, want %s", path, show(got), show(want))) }
	switch {
	case got.Type() == instant:
		g, w := got.Interface().(time.Time), want.Interface().(time.Time)
		if g.IsZero() != w.IsZero() || g.Sub(w).Abs() > slack {
			return tell()
		}
	case got.Kind() == reflect.Pointer:
		if got.IsNil() || want.IsNil() {
			if got.IsNil() != want.IsNil() {
				return tell()
			}
			return found
		}
		return diff(found, path, got.Elem(), want.Elem())
	case got.Kind() == reflect.Struct:
		for i := range got.NumField() {
			name := got.Type().Field(i).Name
			if path != "" {
				name = path + "." + name
			}
			found = diff(found, name, got.Field(i), want.Field(i))
		}
	case got.Kind() == reflect.Slice && got.Type().Elem().Kind() != reflect.Uint8:
		if got.Len() != want.Len() {
			return tell()
		}
		for i := range got.Len() {
			found = diff(found, fmt.Sprintf("%s[%d]", path, i), got.Index(i), want.Index(i))
		}
	case got.Kind() == reflect.Slice:
		if string(got.Bytes()) != string(want.Bytes()) {
			return tell()
		}
	default:
		if !got.Equal(want) {
			return tell()
		}
	}
	return found
}

const maxShown = 80

func show(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	var s string
	switch {
	case v.Type() == instant:
		s = v.Interface().(time.Time).UTC().Format(time.RFC3339Nano)
	case v.Kind() == reflect.String, v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		s = fmt.Sprintf("%q", v.Interface())
	default:
		s = fmt.Sprintf("%+v", v.Interface())
	}
	if len(s) > maxShown {
		return fmt.Sprintf("%s… (%d bytes)", s[:maxShown], len(s))
	}
	return s
}

// describe names a record in a report.
func describe(rec einmal.Record) string {
	if rec.ID == 0 {
		return "no record"
	}
	return fmt.Sprintf("record %d (%v, attempt %d, version %d)", rec.ID, rec.State, rec.Attempt, rec.Version)
}

func valueOf(v any) reflect.Value { return reflect.ValueOf(v) }
