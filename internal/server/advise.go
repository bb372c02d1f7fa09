package server

import (
	"errors"
	"fmt"
	"strings"

	"kevy/aof"
)

// advise adds to an error of opening the store what can be done about it.
func advise(err error) error {
	var damage *aof.DamageError
	var torn *aof.TornError
	switch {
	case errors.As(err, &damage) && strings.HasSuffix(damage.File, ".base.aof"):
		return fmt.Errorf("%w\nNothing was changed. This file is a base, and a part of one is no state of the store, so only --recover skip goes on: it leaves out what is damaged and keeps a copy of it", err)
	case errors.As(err, &damage):
		return fmt.Errorf("%w\nNothing was changed. Start with --recover truncate to keep what stands before the damage, or with --recover skip to leave out what is damaged and nothing else; either keeps a copy of what goes", err)
	case errors.As(err, &torn):
		return fmt.Errorf("%w\nNothing was changed, because aof-load-truncated is no. Look at the file with redis-check-aof, then start with --aof-load-truncated yes, which cuts the tail off and keeps a copy of it", err)
	}
	return err
}
