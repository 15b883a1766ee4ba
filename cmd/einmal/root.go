package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/einmal-dev/einmal"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/opview"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

// app is what the commands share.
type app struct {
	in       io.Reader
	out, err term.Out
	open     func(context.Context, location) (einmal.Store, error)
	create   func(context.Context, location) error

	began bool // the command line was right and the command runs
}

// run does one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{cause: err, code: exitFailed}
		if !a.began {
			f.code = exitUsage
		}
	}
	if f.cause.Error() != "" {
		lines := term.Wrap(f.cause.Error(), max(0, a.err.Width-len("einmal: ")))
		a.err.Printf("%s %s\n", a.err.Red("einmal:"), strings.Join(lines, "\n        "))
	}
	if f.detail != nil {
		f.detail(a.err)
	}
	switch {
	case f.next != "":
		a.err.Printf("  → %s\n", f.next)
	case f.code == exitUsage:
		a.err.Printf("  → %s --help\n", cmd.CommandPath())
	}
	return f.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "einmal",
		Short: "Make a write over HTTP happen once",
		Long: `Einmal makes a write over HTTP happen once, lets clients retry it safely, and
never guesses: an outcome that nobody can know is unclear, and somebody's to
resolve.`,
		Example: `  einmal demo
  einmal init --store sqlite:orders.db
  einmal operations list --store sqlite:orders.db`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommand,
		RunE:          help,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.began = true
		},
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(a.demoCommands()...)
	root.AddCommand(a.initCommand(), a.operationsCommand(), a.storeCommand(), a.versionCommand())
	return root
}

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// subcommand refuses a word that is no subcommand, and says which there are.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usage("unknown command %q: there are %s", args[0], strings.Join(names, ", "))
}

const storeVariable = "EINMAL_STORE"

// storeFlag is the --store flag of a command. $EINMAL_STORE is its default.
type storeFlag struct{ url string }

func (f *storeFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "store", os.Getenv(storeVariable), "the store, as sqlite:PATH; $"+storeVariable+" is the default")
	cmd.Flags().Lookup("store").DefValue = ""
}

func (f *storeFlag) location() (location, error) {
	if f.url == "" {
		return location{}, usage("which store? Give --store sqlite:PATH, or set $%s", storeVariable)
	}
	loc, err := parseStore(f.url)
	if err != nil {
		return location{}, usage("--store: %w", err)
	}
	return loc, nil
}

// hint is how to call this program again on the same store.
func (f *storeFlag) hint() opview.Hint {
	h := opview.Hint{Program: thisCommand()}
	if f.url != os.Getenv(storeVariable) {
		h.Store = []string{"--store", f.url}
	}
	return h
}

// withStore opens the store for the time of do.
func (a *app) withStore(ctx context.Context, f *storeFlag, do func(einmal.Store) error) (err error) {
	loc, err := f.location()
	if err != nil {
		return err
	}
	store, err := a.open(ctx, loc)
	if err != nil {
		return err
	}
	defer func() {
		if closing := store.Close(); err == nil && closing != nil {
			err = fmt.Errorf("closing the store: %w", closing)
		}
	}()
	return do(store)
}

// withOperator opens the store and the operators' view of it for the time of do.
func (a *app) withOperator(ctx context.Context, f *storeFlag, do func(*einmal.Operator) error) error {
	return a.withStore(ctx, f, func(store einmal.Store) error {
		operator, err := einmal.NewOperator(ctx, store)
		if err != nil {
			return err
		}
		return explain(do(operator))
	})
}
