package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/opview"
)

// reference names one operation: by its ID, or by what its client knows.
type reference struct {
	id       string
	identity einmal.Identity
}

func (r *reference) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.identity.Operation, "operation", "", "the operation's name, instead of an ID, with --key")
	cmd.Flags().StringVar(&r.identity.Key, "key", "", "the client's idempotency key, without quotes of its own")
	cmd.Flags().StringVar(&r.identity.Tenant, "tenant", "", "the tenant, where there are several")
}

func (r *reference) set(args []string) error {
	byIdentity := r.identity != (einmal.Identity{})
	switch {
	case len(args) == 1 && byIdentity:
		return usage("give an ID, or --operation and --key: not both")
	case len(args) == 1:
		r.id = args[0]
		return nil
	case !byIdentity:
		return usage("which operation? Give its ID, or --operation and --key (and --tenant)")
	case r.identity.Operation == "" || r.identity.Key == "":
		return usage("an operation is found by --operation and --key together")
	}
	return nil
}

// words name it on a command line.
func (r *reference) words() []string {
	if r.id != "" {
		return []string{r.id}
	}
	words := []string{"--operation", r.identity.Operation, "--key", r.identity.Key}
	if r.identity.Tenant != "" {
		words = append(words, "--tenant", r.identity.Tenant)
	}
	return words
}

func (r *reference) find(ctx context.Context, o *einmal.Operator) (einmal.Operation, error) {
	if r.id != "" {
		return o.Get(ctx, r.id)
	}
	return o.Find(ctx, r.identity)
}

func (r *reference) detail(ctx context.Context, o *einmal.Operator) (opview.Detail, error) {
	op, err := r.find(ctx, o)
	if err != nil {
		return opview.Detail{}, err
	}
	timeline, err := o.Timeline(ctx, op.ID)
	if err != nil {
		return opview.Detail{}, err
	}
	return opview.Detail{Operation: op, Lives: o.AttemptsOver(op), Timeline: timeline}, nil
}
