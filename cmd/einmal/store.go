package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

func (a *app) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Look at a store, and accept what stopped it",
		Args:  subcommand,
		RunE:  help,
	}
	cmd.AddCommand(a.storeShowCommand(), a.storeAcceptCommand())
	return cmd
}

// accepted is a setting of this command: who accepted what of a store last, and why.
type accepted struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

const acceptedPrefix = "accepted-"

// storeFacts is what store show tells.
type storeFacts struct {
	Store    string              `json:"store"`
	ID       string              `json:"id"`
	Epoch    string              `json:"epoch"`
	Seq      string              `json:"seq"`
	Clock    string              `json:"clock"` // ok or jumped
	Pauses   []pause             `json:"pauses"`
	Accepted map[string]accepted `json:"accepted,omitempty"`
	Open     map[string]int      `json:"open"` // by state; at most 1000 are counted
	Waiting  int                 `json:"needs_attention"`
	More     bool                `json:"open_has_more,omitempty"`
}

type pause struct {
	Tenant    string     `json:"tenant"`
	Operation string     `json:"operation"`
	Until     *time.Time `json:"until,omitempty"`
}

func (a *app) storeShowCommand() *cobra.Command {
	var store storeFlag
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show a store's own state: its clock, its position, what is paused and what is open",
		Example: `  einmal store show --store sqlite:orders.db`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), &store, func(s einmal.Store) error {
				facts, err := readFacts(cmd.Context(), s)
				if err != nil {
					return err
				}
				facts.Store = store.url
				if asJSON {
					enc := json.NewEncoder(a.out)
					enc.SetIndent("", "  ")
					return enc.Encode(facts)
				}
				a.facts(facts)
				return nil
			})
		},
	}
	store.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON document")
	return cmd
}

func readFacts(ctx context.Context, s einmal.Store) (storeFacts, error) {
	settings, err := s.Settings(ctx)
	if err != nil {
		return storeFacts{}, err
	}
	facts := storeFacts{Pauses: []pause{}, Accepted: map[string]accepted{}, Open: map[string]int{}}
	for _, one := range settings {
		switch one.Name {
		case "id":
			facts.ID = one.Value
		case "epoch":
			facts.Epoch = one.Value
		case "seq":
			facts.Seq = one.Value
		case "clock":
			facts.Clock = one.Value
		case "pause":
			p := pause{Tenant: one.Tenant, Operation: one.Operation}
			if !one.Until.IsZero() {
				p.Until = &one.Until
			}
			facts.Pauses = append(facts.Pauses, p)
		}
		if what, ok := strings.CutPrefix(one.Name, acceptedPrefix); ok {
			var last accepted
			if json.Unmarshal([]byte(one.Value), &last) == nil {
				facts.Accepted[what] = last
			}
		}
	}
	page, next, err := s.List(ctx, einmal.Filter{States: openStates, Limit: 1000})
	if err != nil {
		return storeFacts{}, err
	}
	facts.More = next != ""
	for i := range page {
		facts.Open[page[i].State.String()]++
		if page[i].Attention {
			facts.Waiting++
		}
	}
	return facts, nil
}

func (a *app) facts(f storeFacts) {
	fact := func(name, value string) { a.out.Printf("%s  %s\n", a.out.Dim(term.Pad(name, 8)), value) }
	fact("store", f.Store)
	fact("id", f.ID)
	fact("position", "epoch "+f.Epoch+", write "+f.Seq)
	clock := a.out.Green("ok")
	if f.Clock != "ok" {
		clock = a.out.Red("jumped") + ": nothing is purged, and nothing unclear runs again.\n          Check the host's time, then: einmal store accept --clock --reason …"
	}
	fact("clock", clock)
	var open []string
	for _, s := range openStates {
		if n := f.Open[s.String()]; n > 0 {
			open = append(open, fmt.Sprintf("%d %v", n, s))
		}
	}
	line := strings.Join(open, ", ")
	switch {
	case f.More:
		line = "1000 or more operations"
	case line == "":
		line = "nothing"
	}
	if f.Waiting > 0 {
		line += a.out.Red(fmt.Sprintf(" (%d need attention)", f.Waiting))
	}
	fact("open", line)
	for _, p := range f.Pauses {
		until := ""
		if p.Until != nil {
			until = ", until " + term.Clock(*p.Until, time.Now())
		}
		fact("paused", "tenant "+term.Safe(p.Tenant)+", operation "+term.Safe(p.Operation)+until)
	}
	for _, what := range slices.Sorted(func(yield func(string) bool) {
		for what := range f.Accepted {
			if !yield(what) {
				return
			}
		}
	}) {
		last := f.Accepted[what]
		fact("accepted", fmt.Sprintf("the %s at %s by %s: %s", what, term.Clock(last.At, time.Now()), term.Safe(last.By), term.Safe(last.Reason)))
	}
}

func (a *app) storeAcceptCommand() *cobra.Command {
	var store storeFlag
	var clock, gap bool
	var reason, actor string
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Accept a jumped clock, or the gap of a restored store",
		Long: `Accept what made a store careful.

  --clock  The store's clock stepped. Until this is accepted nothing is purged and
           no unclear operation runs again. Accept it once the host's time is right.
  --gap    The store was restored from an older state, and operations after that
           state are gone. Until this is accepted, keys that the store does not know
           are refused. From then on they run: an operation that happened in the gap
           happens again if its client sends it again. See docs/operating.md first.`,
		Example: `  einmal store accept --clock --reason "the host's time was a year ahead, corrected"
  einmal store accept --gap --reason "restored last night's backup; clients were told"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case clock == gap:
				return usage("what do you accept? Give --clock or --gap")
			case strings.TrimSpace(reason) == "":
				return usage("--reason: say why; it is kept in the store")
			case strings.TrimSpace(actor) == "":
				return usage("--actor: say who you are")
			}
			return a.withStore(cmd.Context(), &store, func(s einmal.Store) error {
				return a.accept(cmd.Context(), s, gap, accepted{By: actor, Reason: reason, At: time.Now().UTC()})
			})
		},
	}
	store.add(cmd)
	cmd.Flags().BoolVar(&clock, "clock", false, "accept the clock as it is")
	cmd.Flags().BoolVar(&gap, "gap", false, "accept that operations are missing")
	cmd.Flags().StringVar(&reason, "reason", "", "why; required")
	cmd.Flags().StringVar(&actor, "actor", thisPerson(), "who you are")
	return cmd
}

func (a *app) accept(ctx context.Context, s einmal.Store, gap bool, word accepted) error {
	name, what := "clock", "clock"
	if gap {
		name, what = "epoch", "gap"
	}
	value, err := json.Marshal(word)
	if err != nil {
		return err
	}
	if _, err := s.Settings(ctx, einmal.Setting{Name: name, Value: "accept"}, einmal.Setting{Name: acceptedPrefix + what, Value: string(value)}); err != nil {
		return err
	}
	if gap {
		a.out.Printf("%s accepted the gap. Keys that the store does not know run from now on.\n", a.out.Green("✓"))
	} else {
		a.out.Printf("%s accepted the clock. Purging and re-runs go on.\n", a.out.Green("✓"))
	}
	return nil
}
