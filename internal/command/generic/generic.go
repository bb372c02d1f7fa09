// Package generic has the commands on keys of any type and on whole databases.
package generic

import "kevy/internal/command"

// Commands returns the family.
func Commands() []*command.Spec {
	return []*command.Spec{
		del(), unlink(), exists(), touch(), typeOf(),
		expire(), pExpire(), expireAt(), pExpireAt(),
		ttl(), pTTL(), expireTime(), pExpireTime(), persist(),
		rename(), renameNX(), copyKey(), move(),
		keys(), scan(), randomKey(),
		dbSize(), flushDB(), flushAll(), swapDB(),
		object(), sort(), sortRO(), dump(), restore(), restoreAsking(), wait(),
	}
}
