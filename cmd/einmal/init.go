package main

import (
	"github.com/spf13/cobra"
)

func (a *app) initCommand() *cobra.Command {
	var store storeFlag
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a store",
		Long: `Create a store. Nothing else creates one: a wrong path or a volume that is not
mounted must not look like a store without records. A store that is already
there is refused and left as it is.`,
		Example: `  einmal init --store sqlite:/var/lib/shop/operations.db`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loc, err := store.location()
			if err != nil {
				return err
			}
			if err := a.create(cmd.Context(), loc); err != nil {
				return err
			}
			a.out.Printf("%s created %s\n", a.out.Green("✓"), loc)
			a.out.Printf("  Open it in your server:  sqlitestore.Open(ctx, %q, sqlitestore.Options{})\n", loc.path)
			hint := store.hint()
			a.out.Printf("  See what is in it:       %s\n", hint.Line("operations", "list"))
			a.out.Printf("  Back it up as docs/operating.md says, never by copying the file alone.\n")
			return nil
		},
	}
	store.add(cmd)
	return cmd
}
