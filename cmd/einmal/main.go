// Command einmal makes and looks after record stores, lets people in charge settle unclear operations, and shows what it is all for: einmal demo.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/einmal-dev/einmal/cmd/einmal/internal/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{in: os.Stdin, out: term.New(os.Stdout), err: term.New(os.Stderr), open: openStore, create: createStore}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
