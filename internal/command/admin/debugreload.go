package admin

import (
	"kevy/internal/command"
	"kevy/resp"
)

var (
	errReloadOption = &resp.Error{Code: "ERR", Text: "DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."}
	errReloadMulti  = &resp.Error{Code: "ERR", Text: "DEBUG RELOAD and DEBUG LOADAOF cannot run inside a transaction"}
	errReloadRDB    = &resp.Error{Code: "ERR", Text: "Error trying to load the RDB dump, check server logs."}
	errReloadAOF    = &resp.Error{Code: "ERR", Text: "Error trying to load the AOF files, check server logs."}
)

func debugReload(c *command.Ctx, srv Server) {
	flush, save, merge := true, true, false
	for _, option := range c.Args[2:] {
		switch {
		case command.EqualFold(option, "MERGE"):
			merge = true
		case command.EqualFold(option, "NOFLUSH"):
			flush = false
		case command.EqualFold(option, "NOSAVE"):
			save = false
		default:
			c.W.Error(errReloadOption)
			return
		}
	}
	reload(c, srv, save, flush || merge, errReloadRDB)
}

func debugLoadAOF(c *command.Ctx, srv Server) { reload(c, srv, false, true, errReloadAOF) }

// reload makes the server read the data back; keys that are there already are an
// error unless replace is true. It locks every shard, so none may be locked for a
// transaction.
func reload(c *command.Ctx, srv Server, save, replace bool, failed *resp.Error) {
	if session(c).InMulti() {
		c.W.Error(errReloadMulti)
		return
	}
	if !replace && srv.Keys() > 0 {
		c.W.Error(failed) // every key would be in conflict with itself
		return
	}
	if err := srv.Reload(save); err != nil {
		srv.Log("DEBUG RELOAD: " + err.Error())
		c.W.Error(failed)
		return
	}
	c.W.OK()
}
