package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/opview"
)

func (a *app) operationsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "operations",
		Aliases: []string{"operation", "ops"},
		Short:   "Look at operations, and settle the unclear ones",
		Example: `  einmal operations list --state unclear
  einmal operations show op_1q8z…
  einmal operations resolve op_1q8z… --version 2 --as not-applied \
    --reason "no such payment at the partner, ticket 4711"`,
		Args: subcommand,
		RunE: help,
	}
	cmd.AddCommand(a.listCommand(), a.showCommand(), a.resolveCommand())
	return cmd
}

// openStates are what list shows unless told otherwise.
var openStates = []einmal.State{einmal.StateAccepted, einmal.StateRunning, einmal.StateUnclear}

func (a *app) listCommand() *cobra.Command {
	var store storeFlag
	var states []string
	var tenant string
	var asJSON bool
	var f einmal.Filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List operations, the oldest first",
		Long: `List operations, the oldest first. Without --state these are the open ones:
accepted, running and unclear. Operations that are not_applied need nobody: the
caller's next request runs them.`,
		Example: `  einmal operations list
  einmal operations list --state unclear --owner pay@example.com \
    --older-than 15m
  einmal operations list --state all --tenant acme --limit 20
  einmal operations list --json | jq -r '.operations[].id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.States, err = parseStates(states); err != nil {
				return err
			}
			if cmd.Flags().Changed("tenant") {
				f.Tenant = &tenant
			}
			if f.Limit < 1 || f.Limit > 1000 {
				return usage("--limit: want 1 to 1000")
			}
			if f.OlderThan < 0 {
				return usage("--older-than is negative")
			}
			return a.withOperator(cmd.Context(), &store, func(o *einmal.Operator) error {
				page, next, err := o.List(cmd.Context(), f)
				if err != nil {
					return err
				}
				if asJSON {
					return opview.ListJSON(a.out, page, next)
				}
				a.list(page, next, f, store.hint())
				return nil
			})
		},
	}
	store.add(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&states, "state", nil, "only these states: accepted, running, unclear, not_applied, completed, expired, or all; may be repeated")
	flags.StringVar(&tenant, "tenant", "", "only this tenant's")
	flags.StringVar(&f.Operation, "operation", "", "only of this operation name")
	flags.StringVar(&f.Owner, "owner", "", "only of this owner")
	flags.BoolVar(&f.Attention, "attention", false, "only those that were escalated")
	flags.DurationVar(&f.OlderThan, "older-than", 0, "only those that have been in their state for so long, as in 15m")
	flags.IntVar(&f.Limit, "limit", 100, "at most so many")
	flags.StringVar(&f.After, "after", "", "the page after this cursor, which the page before named")
	flags.BoolVar(&asJSON, "json", false, "one JSON document")
	return cmd
}

func (a *app) list(page []einmal.Operation, next string, f einmal.Filter, hint opview.Hint) {
	if len(page) == 0 {
		what := "no operations like that"
		if filterless(f) {
			what = "no open operations: nothing waits for anybody (--state all shows the settled ones)"
		}
		a.out.Paragraph("", what)
		return
	}
	opview.List(a.out, page)
	if next != "" {
		a.out.Printf("\nThere are more:  --after %s\n", next)
	}
	opview.Advise(a.out, page, hint)
}

func filterless(f einmal.Filter) bool {
	return f.Tenant == nil && f.Operation == "" && f.Owner == "" && !f.Attention && f.OlderThan == 0 && f.After == "" && len(f.States) == len(openStates)
}

func parseStates(names []string) ([]einmal.State, error) {
	if len(names) == 0 {
		return openStates, nil
	}
	var states []einmal.State
	for _, name := range names {
		if name == "all" {
			return nil, nil
		}
		s, err := einmal.ParseState(strings.ReplaceAll(name, "-", "_"))
		if err != nil {
			return nil, usage("--state: unknown state %q: there are accepted, running, unclear, not_applied, completed, expired, and all", name)
		}
		states = append(states, s)
	}
	return states, nil
}

func (a *app) showCommand() *cobra.Command {
	var store storeFlag
	var ref reference
	var asJSON, body bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show everything about one operation",
		Long: `Show everything about one operation: what its state means, who owns it, every
attempt and whether it is provably over, and its timeline. The operation is named
by its ID, or by what its client knows: operation name, key and tenant.`,
		Example: `  einmal operations show op_1q8z…
  einmal operations show --operation create-order --key 7d1c… --tenant acme
  einmal operations show op_1q8z… --json --body`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ref.set(args); err != nil {
				return err
			}
			return a.withOperator(cmd.Context(), &store, func(o *einmal.Operator) error {
				d, err := ref.detail(cmd.Context(), o)
				if err != nil {
					return err
				}
				d.Body, d.Hint = body, store.hint()
				if asJSON {
					return d.JSON(a.out)
				}
				d.Write(a.out)
				return nil
			})
		},
	}
	store.add(cmd)
	ref.add(cmd)
	cmd.Flags().BoolVar(&body, "body", false, "show the stored answer's body")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON document")
	return cmd
}
