package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/contract"
)

// answerFlags say which answer callers shall get of an operation that is resolved as applied.
type answerFlags struct {
	file    string
	status  int
	headers []string
	unknown bool
}

func (f *answerFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "result", "", "with --as applied: the file with the body that callers shall get; - is standard input, /dev/null no body")
	flags.IntVar(&f.status, "status", 0, "with --result: the status, 200 to 399")
	flags.StringArrayVar(&f.headers, "header", nil, "with --result: a header field, as in 'Content-Type: application/json'; may be repeated")
	flags.BoolVar(&f.unknown, "result-unknown", false, "with --as applied: the answer is not known; callers are sent to the status resource")
}

// maxAnswer bounds what is read from --result, in bytes.
const maxAnswer = 16 << 20

// result returns the answer, nil where none is to be given.
func (f *answerFlags) result(stdin io.Reader, as einmal.ResolveAs) (*einmal.Result, error) {
	given := f.file != "" || f.status != 0 || len(f.headers) > 0
	switch {
	case as != einmal.ResolveApplied && (given || f.unknown):
		return nil, usage("--result, --status, --header and --result-unknown go with --as applied: nothing else has an answer")
	case as != einmal.ResolveApplied:
		return nil, nil
	case f.unknown && given:
		return nil, usage("--result-unknown says that there is no answer: leave out --result, --status and --header")
	case f.unknown:
		return nil, nil
	case f.file == "":
		return nil, usage("--as applied: what shall callers get? Give --result FILE --status N, or say --result-unknown")
	case f.status == 0:
		return nil, usage("--result: with which --status shall callers get it?")
	case f.status < 200 || f.status > 399:
		return nil, usage("--status %d: an operation that happened answers with 200 to 399", f.status)
	}
	r := &einmal.Result{Status: f.status}
	var err error
	if r.Header, err = parseHeaders(f.headers); err != nil {
		return nil, err
	}
	if r.Body, err = readAnswer(f.file, stdin); err != nil {
		return nil, err
	}
	if len(r.Body) > 0 && (f.status == http.StatusNoContent || f.status == http.StatusNotModified) {
		return nil, usage("--status %d has no body: give --result /dev/null", f.status)
	}
	return r, nil
}

func readAnswer(file string, stdin io.Reader) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fail("name a file, - for standard input, or /dev/null for no body", "--result: %w", err)
		}
		defer f.Close()
		stdin = f
	}
	body, err := io.ReadAll(io.LimitReader(stdin, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("--result: %w", err)
	}
	if len(body) > maxAnswer {
		return nil, fail("say --result-unknown instead", "--result: more than %d bytes", maxAnswer)
	}
	return body, nil
}

// parseHeaders takes what the middleware would have stored itself, and nothing else.
func parseHeaders(lines []string) ([]einmal.Field, error) {
	var fields []einmal.Field
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok || name == "" {
			return nil, usage("--header %q: write 'Name: value'", line)
		}
		allowed := slices.ContainsFunc(contract.StoredFields, func(s string) bool { return http.CanonicalHeaderKey(s) == name })
		if !allowed {
			return nil, usage("--header %s is not replayed: there are %s", name, strings.Join(contract.StoredFields, ", "))
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, usage("--header %s: control characters in the value", name)
		}
		fields = append(fields, einmal.Field{Name: name, Value: value})
	}
	return fields, nil
}
