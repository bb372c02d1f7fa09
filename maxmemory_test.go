package kevy

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"kevy/resp"
)

// A store with a bound lets keys go, and one without eviction refuses what may need
// memory, in an update too, while what frees it goes on.
func TestWithMaxMemory(t *testing.T) {
	ctx := context.Background()
	fill := func(t *testing.T, policy MaxMemoryPolicy) (refused int, keys int64) {
		db, err := Open("", WithMaxMemory(100<<10, policy))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		value := string(make([]byte, 1000))
		for i := range 500 {
			_, err := db.Do(ctx, "SET", fmt.Sprint("key:", i), value)
			var e *resp.Error
			switch {
			case errors.As(err, &e) && e.Code == "OOM":
				refused++
			case err != nil:
				t.Fatal(err)
			}
		}
		if policy == NoEviction {
			_, err := db.Update(func(tx *Tx) error {
				if _, err := tx.Do("DEL", "key:1"); err != nil {
					return err
				}
				if _, err := tx.Do("SET", "key:2", "1"); err == nil || err.Error() != "OOM command not allowed when used memory > 'maxmemory'." {
					t.Errorf("SET in an update: %v", err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		r, err := db.Do(ctx, "DBSIZE")
		if err != nil {
			t.Fatal(err)
		}
		return refused, r.Int
	}
	if refused, keys := fill(t, NoEviction); refused < 300 || keys < 50 || keys > 120 {
		t.Errorf("without eviction: %d refused, %d keys", refused, keys)
	}
	for _, policy := range []MaxMemoryPolicy{AllKeysLRU, AllKeysLFU, AllKeysRandom} {
		if refused, keys := fill(t, policy); refused != 0 || keys < 50 || keys > 120 {
			t.Errorf("policy %d: %d refused, %d keys", policy, refused, keys)
		}
	}
	for _, policy := range []MaxMemoryPolicy{VolatileLRU, VolatileLFU, VolatileRandom, VolatileTTL} {
		if refused, keys := fill(t, policy); refused < 300 || keys < 50 {
			t.Errorf("policy %d, no key expires: %d refused, %d keys", policy, refused, keys)
		}
	}
}
