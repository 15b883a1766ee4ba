package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/einmal-dev/einmal/cmd/einmal/internal/demo"
	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

func (a *app) demoCommands() []*cobra.Command {
	var o demo.Options
	show := &cobra.Command{
		Use:   "demo",
		Short: "See it: an order API on a bad day, in about ten seconds",
		Long: `Play an order API on a bad day: answers that are lost, two requests at once, a
server that is killed between the payment and its record. Real processes and
real connections on 127.0.0.1, a store in a temporary folder, nothing to
configure. Every payment is counted; the exit code is not 0 if one is wrong.`,
		Example: `  einmal demo
  einmal demo --stay`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Command = thisCommand()
			return demo.Run(cmd.Context(), a.out, o)
		},
	}
	show.Flags().BoolVar(&o.Stay, "stay", false, "leave it running, with curl lines to try, until Ctrl-C")
	show.Flags().BoolVar(&o.Keep, "keep", false, "keep the folder with store and logs")

	var store, partner string
	shop := &cobra.Command{
		Use: "demo-shop", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.RunShop(cmd.Context(), demo.StdChild(), store, partner)
		},
	}
	shop.Flags().StringVar(&store, "store", "", "")
	shop.Flags().StringVar(&partner, "partner", "", "")
	payments := &cobra.Command{
		Use: "demo-partner", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return demo.RunPartner(cmd.Context(), demo.StdChild()) },
	}
	return []*cobra.Command{show, shop, payments}
}

// commandLine is a command of this program, as one would type it.
func commandLine(words ...string) string { return term.CommandLine(0, thisCommand(), words...) }

// thisCommand is how a person calls this program. What go run builds lives in a folder that is gone afterwards.
func thisCommand() string {
	if strings.Contains(filepath.ToSlash(os.Args[0]), "/go-build") {
		return "go run ./cmd/einmal"
	}
	return os.Args[0]
}
