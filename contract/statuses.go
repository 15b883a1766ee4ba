package contract

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// End is how one attempt ended, as its status tells it.
type End string

const (
	EndSuccess  End = "success"   // the effect happened
	EndRefused  End = "refused"   // no effect, and this is the operation's answer
	EndNoEffect End = "no_effect" // no effect, and the operation may run again
	EndOpen     End = "open"      // nothing is known about the effect
)

// The statuses that a table of statuses covers. Informational answers end nothing.
const (
	firstStatus = 200
	lastStatus  = 599
)

// DefaultEnd is what a status means where a policy says nothing. This table is part of the promise: at most once holds for an opaque partner only if it
// refuses with the refused and no_effect statuses before any effect. A keyed partner's 409 is open: "in progress" and "key conflict" cannot be told
// apart.
func DefaultEnd(effect string, status int) End {
	switch {
	case status >= 200 && status <= 399:
		return EndSuccess
	case status == 409 && effect == EffectKeyed:
		return EndOpen
	case status >= 410 && status <= 417, slices.Contains([]int{400, 402, 404, 405, 406, 409, 422, 428, 451}, status):
		return EndRefused
	case slices.Contains(defaultRefusesBeforeEffect, status):
		return EndNoEffect
	}
	return EndOpen
}

var defaultRefusesBeforeEffect = []int{401, 403, 421, 425, 429, 431}

// Statuses tell what each final status means at one operation. Every status from 200 to 599 is in exactly one of the first four lists.
type Statuses struct {
	Success  []StatusRange `json:"success"`
	Refused  []StatusRange `json:"refused"`
	NoEffect []StatusRange `json:"no_effect"`
	Open     []StatusRange `json:"open"`

	RefusesBeforeEffect []int       `json:"refuses_before_effect"` // of NoEffect: hold only until the first effect has begun
	BoundToKey          []int       `json:"bound_to_key"`          // keyed: stored by the partner under the key, so they speak for every attempt
	Overrides           map[int]End `json:"overrides"`             // where this operation differs from DefaultEnd
}

// StatusesOf builds the table from the function that decides about attempts, so that what is published is what is done.
func StatusesOf(effect string, end func(status int) End, refusesBeforeEffect, boundToKey []int) Statuses {
	s := Statuses{BoundToKey: slices.Sorted(slices.Values(boundToKey)), Overrides: map[int]End{}}
	for status := firstStatus; status <= lastStatus; status++ {
		e := end(status)
		list := s.list(e)
		if list == nil {
			panic(fmt.Sprintf("contract: status %d has the unknown end %q", status, e))
		}
		if n := len(*list); n > 0 && (*list)[n-1].Last == status-1 {
			(*list)[n-1].Last = status
		} else {
			*list = append(*list, StatusRange{status, status})
		}
		if e != DefaultEnd(effect, status) {
			s.Overrides[status] = e
		}
		if e == EndNoEffect && slices.Contains(refusesBeforeEffect, status) {
			s.RefusesBeforeEffect = append(s.RefusesBeforeEffect, status)
		}
	}
	return s.nonNil()
}

// DefaultStatuses is the table of an effect class without any override.
func DefaultStatuses(effect string) Statuses {
	return StatusesOf(effect, func(status int) End { return DefaultEnd(effect, status) }, defaultRefusesBeforeEffect, nil)
}

// End returns what a status means, and false for one outside 200 to 599.
func (s *Statuses) End(status int) (End, bool) {
	for _, e := range ends {
		for _, r := range *s.list(e) {
			if r.First <= status && status <= r.Last {
				return e, true
			}
		}
	}
	return "", false
}

var ends = []End{EndSuccess, EndRefused, EndNoEffect, EndOpen}

func (s *Statuses) list(e End) *[]StatusRange {
	switch e {
	case EndSuccess:
		return &s.Success
	case EndRefused:
		return &s.Refused
	case EndNoEffect:
		return &s.NoEffect
	case EndOpen:
		return &s.Open
	}
	return nil
}

func (s Statuses) nonNil() Statuses {
	for _, e := range ends {
		list := s.list(e)
		*list = nonNil(*list)
	}
	s.RefusesBeforeEffect, s.BoundToKey = nonNil(s.RefusesBeforeEffect), nonNil(s.BoundToKey)
	if s.Overrides == nil {
		s.Overrides = map[int]End{}
	}
	return s
}

func (s *Statuses) validate(effect string) error {
	meaning := map[int]End{}
	for _, e := range ends {
		for _, r := range *s.list(e) {
			if r.First < firstStatus || r.Last > lastStatus || r.First > r.Last {
				return fmt.Errorf("statuses: %v is no range between %d and %d", r, firstStatus, lastStatus)
			}
			for status := r.First; status <= r.Last; status++ {
				if before, twice := meaning[status]; twice {
					return fmt.Errorf("statuses: %d is %s and %s", status, before, e)
				}
				meaning[status] = e
			}
		}
	}
	for status := firstStatus; status <= lastStatus; status++ {
		e, ok := meaning[status]
		if !ok {
			return fmt.Errorf("statuses: %d is in no list", status)
		}
		override, ok := s.Overrides[status]
		if ok != (e != DefaultEnd(effect, status)) || ok && override != e {
			return fmt.Errorf("statuses: %d is %s, by default %s, and the override says %q", status, e, DefaultEnd(effect, status), override)
		}
	}
	for status := range s.Overrides {
		if status < firstStatus || status > lastStatus {
			return fmt.Errorf("statuses: override of %d", status)
		}
	}
	for _, status := range s.RefusesBeforeEffect {
		if meaning[status] != EndNoEffect {
			return fmt.Errorf("statuses: %d refuses before effect and is %q", status, meaning[status])
		}
	}
	for _, status := range s.BoundToKey {
		if meaning[status] == "" {
			return fmt.Errorf("statuses: %d in bound_to_key", status)
		}
	}
	return nil
}

// StatusRange is one status, or several that follow each other; both ends belong to it. JSON shows "404" or "200-399".
type StatusRange struct{ First, Last int }

func (r StatusRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return strconv.Itoa(r.First) + "-" + strconv.Itoa(r.Last)
}

// MarshalText writes String.
func (r StatusRange) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads String.
func (r *StatusRange) UnmarshalText(text []byte) error {
	first, last, two := strings.Cut(string(text), "-")
	if !two {
		last = first
	}
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(last)
	read := StatusRange{a, b}
	if errA != nil || errB != nil || read.String() != string(text) {
		return errors.New("contract: " + strconv.Quote(string(text)) + " is no status range")
	}
	*r = read
	return nil
}
