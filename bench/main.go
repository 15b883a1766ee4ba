// Command bench measures the rows of the performance table. Every row runs its subject and its rival by turns in one process, because only ratios within one
// run count on a shared machine, and prints the medians of all rounds.
//
//	go run ./bench                     all rows that are not on request
//	go run ./bench -rows 'sqlite-.*'   those that match, rows on request too
//	go run ./bench -strict             exit 1 when a row misses its target
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// row is one line of the table.
type row struct {
	name    string
	against string // what the rival is
	unit    string // of both values
	atLeast float64
	atMost  float64 // of the ratio, or of the subject's value where there is no rival; one of the two is set

	subject   func(*round) (float64, error)
	rival     func(*round) (float64, error) // nil: the value itself counts
	onRequest bool                          // runs only when -rows matches it
}

// round is what a measurement gets.
type round struct {
	dir    string        // an empty folder on a real disk, deleted afterwards
	length time.Duration // how long to measure
}

// rows are all rows, in the order in which files add theirs.
var rows []row

func add(r ...row) { rows = append(rows, r...) }

// result is a measured row.
type result struct {
	Row     string    `json:"row"`
	Against string    `json:"against"`
	Unit    string    `json:"unit"`
	Subject float64   `json:"subject"`
	Rival   float64   `json:"rival,omitempty"`
	Value   float64   `json:"value"` // the ratio, or the subject's value where there is no rival
	Target  string    `json:"target"`
	Met     bool      `json:"met"`
	Rounds  []float64 `json:"rounds"`
}

func main() {
	only := flag.String("rows", "", "regular expression: only rows whose whole name matches")
	rounds := flag.Int("rounds", 5, "how often subject and rival are measured")
	length := flag.Duration("length", 2*time.Second, "how long one measurement takes")
	dir := flag.String("dir", "", "folder for the data, on the disk that is to be measured; default: the folder for temporary files")
	asJSON := flag.Bool("json", false, "print JSON, one row a line")
	strict := flag.Bool("strict", false, "exit 1 when a row misses its target")
	flag.Parse()

	chosen, err := choose(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	print := printTable
	if *asJSON {
		print = printJSON
	} else {
		fmt.Printf("%-28s %12s %12s  %-22s %8s  %-8s\n", "row", "subject", "rival", "against", "value", "target")
	}
	missed := false
	for _, r := range chosen {
		res, err := r.measure(*rounds, *dir, *length)
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", r.name, err)
			os.Exit(1)
		}
		print(os.Stdout, &res)
		missed = missed || !res.Met
	}
	if *strict && missed {
		os.Exit(1)
	}
}

func choose(only string) ([]row, error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.onRequest }), nil
	}
	match, err := regexp.Compile("^(?:" + only + ")$")
	if err != nil {
		return nil, err
	}
	chosen := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !match.MatchString(r.name) })
	if len(chosen) == 0 {
		names := make([]string, len(rows))
		for i := range rows {
			names[i] = rows[i].name
		}
		return nil, fmt.Errorf("no row matches %q; there are: %s", only, strings.Join(names, ", "))
	}
	return chosen, nil
}

func (r *row) measure(rounds int, dir string, length time.Duration) (result, error) {
	var subjects, rivals, values []float64
	for i := range rounds {
		sides := []struct {
			run func(*round) (float64, error)
			to  *[]float64
		}{{r.subject, &subjects}, {r.rival, &rivals}}
		if i%2 == 1 { // whoever comes second finds a disk that the first one has warmed up or filled
			slices.Reverse(sides)
		}
		for _, side := range sides {
			if side.run == nil {
				continue
			}
			v, err := measureOnce(side.run, dir, length)
			if err != nil {
				return result{}, err
			}
			*side.to = append(*side.to, v)
		}
		value := subjects[i]
		if r.rival != nil {
			value /= rivals[i]
		}
		values = append(values, value)
	}
	res := result{Row: r.name, Against: r.against, Unit: r.unit, Subject: median(subjects), Rounds: values}
	res.Value = res.Subject
	if r.rival != nil {
		res.Rival = median(rivals)
		res.Value = res.Subject / res.Rival
	}
	if r.atMost != 0 {
		res.Target, res.Met = fmt.Sprintf("<= %g", r.atMost), res.Value <= r.atMost
	} else {
		res.Target, res.Met = fmt.Sprintf(">= %g", r.atLeast), res.Value >= r.atLeast
	}
	return res, nil
}

func measureOnce(run func(*round) (float64, error), parent string, length time.Duration) (_ float64, err error) {
	dir, err := os.MkdirTemp(parent, "einmal-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	return run(&round{dir, length})
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func printTable(w io.Writer, r *result) {
	rival, met := "", "met"
	if r.Rival != 0 {
		rival = fmt.Sprintf("%.4g", r.Rival)
	}
	if !r.Met {
		met = "MISSED"
	}
	fmt.Fprintf(w, "%-28s %12.5g %12s  %-22s %8.3g  %-8s %s (%s; rounds", r.Row, r.Subject, rival, r.Against, r.Value, r.Target, met, r.Unit)
	for _, v := range r.Rounds {
		fmt.Fprintf(w, " %.3g", v)
	}
	fmt.Fprintln(w, ")")
}

func printJSON(w io.Writer, r *result) {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	fmt.Fprintln(w, string(b))
}
