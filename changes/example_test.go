package changes_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"kevy/changes"
)

func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := changes.OpenFileStore("orders.cursors")
	if err != nil {
		log.Fatal(err)
	}
	c, err := changes.New(changes.Options{
		Addr:  "127.0.0.1:6379",
		Start: changes.Oldest, // where there is no cursor yet
		Store: store,
	}, changes.HandlerFunc(func(ctx context.Context, c *changes.Commit) error {
		for i := range c.Frames {
			fmt.Printf("%s %q\n", c.Next, c.Frames[i].Args)
		}
		return nil // the cursor moves past the commit only now
	}))
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil { // until ctx ends
		log.Fatal(err)
	}
}
