package server

import (
	"kevy/feed"
	"kevy/internal/acl"
	"kevy/internal/command"
	"kevy/internal/feedhttp"
)

// httpReader is a user who asks for the feed over HTTP.
type httpReader struct {
	s    *Server
	user *acl.User
}

// loginHTTP returns who asks over HTTP: a user of ACL, or, where nobody need log
// in, the default one.
func (s *Server) loginHTTP(name, password string, given bool) feedhttp.Reader {
	user := s.users.Default()
	switch {
	case given:
		if user = s.users.Authenticate([]byte(name), []byte(password)); user == nil {
			s.users.Note(acl.Entry{
				Reason: acl.Auth, Context: "toplevel", Object: "http", Username: name, UnixMs: s.store.NowMs(),
			})
			return nil
		}
	case !s.users.Open():
		return nil
	}
	return &httpReader{s, user}
}

// MayRead implements feedhttp.Reader: the rights are those to CHANGES SINCE, or
// CHANGES SUBSCRIBE, with the same filters.
func (r *httpReader) MayRead(follow bool, f *feed.Filter) (bool, <-chan struct{}) {
	var spec *command.Spec
	if spec = r.s.sinceSpec; follow {
		spec = r.s.subscribeSpec
	}
	rights := r.user.Rights()
	reason, _ := rights.CheckReads(spec, [][]byte{[]byte("changes"), []byte(spec.Name)}, f.Keys())
	return reason == acl.Allowed, rights.Superseded()
}
