package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/opview"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

func (a *app) resolveCommand() *cobra.Command {
	var store storeFlag
	var ref reference
	var answer answerFlags
	var asJSON bool
	var r einmal.Resolution
	cmd := &cobra.Command{
		Use:   "resolve ID",
		Short: "Settle an unclear operation, with a reason",
		Long: `Settle an unclear operation, after you found out at the partner what happened.

  --as applied      it happened. Give the answer that its callers shall get with
                    --result, --status and --header, or say --result-unknown.
  --as not-applied  it did not happen. The caller's next request runs it again.
                    If it happened after all, it happens twice: be sure.
  --as withdrawn    it did not happen and shall not. The key is closed for ever.

Look at the operation first: show ends with the line to type, and the --version
in it is what you saw. An operation that changed since then is left as it is:
you may know nothing of its last attempt. Reason, actor and time are kept in the
timeline. "Not applied" and "withdrawn" are refused while an attempt is not
provably over, since it could still cause the effect; --accept-live takes that
risk.`,
		Example: `  einmal operations show op_1q8z…
  einmal operations resolve op_1q8z… --version 2 --as applied \
    --reason "payment 812 is there, ticket 4711" \
    --result answer.json --status 201 --header 'Content-Type: application/json'
  einmal operations resolve op_1q8z… --version 2 --as not-applied \
    --reason "the partner has no such payment"
  einmal operations resolve op_1q8z… --version 2 --as withdrawn \
    --reason "customer gave up" --link https://tickets.example.com/4711`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ref.set(args); err != nil {
				return err
			}
			if r.Version < 1 {
				return lookFirst(&store, &ref)
			}
			if r.As == "" {
				return usage("--as: applied, not-applied or withdrawn?")
			}
			if r.As != einmal.ResolveApplied && r.As != einmal.ResolveNotApplied && r.As != einmal.ResolveWithdrawn {
				return usage("--as: unknown resolution %q: use applied, not-applied or withdrawn", r.As)
			}
			if r.Reason == "" {
				return usage("--reason: say how you know; it is kept in the timeline")
			}
			if r.Actor == "" {
				return usage("--actor: say who you are")
			}
			var err error
			if r.Result, err = answer.result(a.in, r.As); err != nil {
				return err
			}
			return a.withOperator(cmd.Context(), &store, func(o *einmal.Operator) error {
				return a.resolve(cmd.Context(), o, &ref, r, store.hint(), asJSON)
			})
		},
	}
	store.add(cmd)
	ref.add(cmd)
	flags := cmd.Flags()
	flags.StringVar((*string)(&r.As), "as", "", "applied, not-applied or withdrawn")
	flags.StringVar(&r.Reason, "reason", "", "how you know; required")
	flags.StringVar(&r.Actor, "actor", thisPerson(), "who you are")
	flags.StringVar(&r.Link, "link", "", "evidence: a ticket, a line of the partner's statement")
	flags.Int64Var(&r.Version, "version", 0, "the version that you saw, as show prints it; required")
	flags.BoolVar(&r.AcceptLive, "accept-live", false, "accept that an attempt which is not provably over could still cause the effect")
	flags.BoolVar(&asJSON, "json", false, "one JSON document: the operation afterwards")
	answer.add(flags)
	return cmd
}

func (a *app) resolve(ctx context.Context, o *einmal.Operator, ref *reference, r einmal.Resolution, hint opview.Hint, asJSON bool) error {
	op, err := ref.find(ctx, o)
	if err != nil {
		return err
	}
	r.ID = op.ID
	if r.Version != op.Version {
		return stale(ctx, o, op.ID, r.Version, hint)
	}
	if err := refuseLive(o, &op, &r); err != nil {
		return err
	}
	if !asJSON {
		a.announce(&op, &r)
	}
	after, err := o.Resolve(ctx, r)
	if errors.Is(err, einmal.ErrStale) {
		return stale(ctx, o, op.ID, r.Version, hint)
	}
	if err != nil {
		return err
	}
	if asJSON {
		ref := reference{id: after.ID}
		d, err := ref.detail(ctx, o)
		if err != nil {
			return err
		}
		return d.JSON(a.out)
	}
	a.out.Printf("%s resolved: version %d\n", a.out.Green("✓"), after.Version)
	a.out.Paragraph("  ", "Who sends the request again gets: "+opview.Callers(&after))
	return nil
}

// lookFirst refuses a resolution that does not say what its person saw. The version of now would not do: it may be of an attempt that nobody looked at.
func lookFirst(store *storeFlag, ref *reference) error {
	hint := store.hint()
	return &failure{
		cause: errors.New("--version: which version of the operation did you see? Look at it first; show ends with the line to type, its version in it"),
		next:  hint.Line(append([]string{"operations", "show"}, ref.words()...)...),
		code:  exitUsage,
	}
}

// stale refuses to settle what the person has not seen, and shows it.
func stale(ctx context.Context, o *einmal.Operator, id string, seen int64, hint opview.Hint) error {
	ref := reference{id: id}
	d, err := ref.detail(ctx, o)
	if err != nil {
		return err
	}
	now := &d.Operation
	next := hint.Line("operations", "show", id)
	if seen > now.Version {
		return fail(next, "the operation has no version %d yet: it is %v at version %d", seen, now.State, now.Version)
	}
	return &failure{
		cause:  fmt.Errorf("nothing is settled: the operation has changed since version %d, and is %v at version %d now", seen, now.State, now.Version),
		detail: func(out term.Out) { d.Since(out, "  ", seen) },
		next:   next,
		code:   exitFailed,
	}
}

// announce says what is about to be changed.
func (a *app) announce(op *einmal.Operation, r *einmal.Resolution) {
	a.out.Printf("%s\n", a.out.Bold(op.ID))
	a.out.Printf("  %s, tenant %s, key %s\n", op.Operation, term.Safe(op.Tenant), term.Safe(op.Key))
	a.out.Printf("  %v since %s, version %d\n", op.State, term.When(op.Changed, op.Now), r.Version)
	to := map[einmal.ResolveAs]string{
		einmal.ResolveApplied:    "completed: it happened",
		einmal.ResolveNotApplied: "not_applied: it did not happen, and may run again",
		einmal.ResolveWithdrawn:  "withdrawn: it did not happen and shall not",
	}[r.As]
	switch {
	case r.As == einmal.ResolveApplied && r.Result == nil:
		to += ", with an answer that is not known"
	case r.As == einmal.ResolveApplied:
		to += ", with the answer that you gave"
	}
	a.out.Printf("  → %s\n", to)
	a.out.Printf("  %s, by %s\n", term.Safe(r.Reason), term.Safe(r.Actor))
}

// refuseLive says it in this command's words when an attempt could still cause the effect.
func refuseLive(o *einmal.Operator, op *einmal.Operation, r *einmal.Resolution) error {
	if r.As == einmal.ResolveApplied || r.AcceptLive || !opview.Resolvable(op) {
		return nil
	}
	for _, l := range o.AttemptsOver(*op) {
		if !l.Over {
			return fail("stop its process first, or accept the risk with --accept-live",
				"attempt %d is not provably over (%s): it could still cause the effect", l.Attempt, l.Why)
		}
	}
	return nil
}

// thisPerson is user@host, "" where neither is known.
func thisPerson() string {
	name := os.Getenv("SUDO_USER")
	if u, err := user.Current(); err == nil && name == "" {
		name = u.Username
	}
	host, err := os.Hostname()
	switch {
	case name == "":
		return ""
	case err != nil:
		return name
	}
	return name + "@" + host
}
