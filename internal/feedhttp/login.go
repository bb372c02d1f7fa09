package feedhttp

import (
	"context"
	"net/http"

	"kevy/feed"
)

// Reader is who asks: a user with what it may read.
type Reader interface {
	// MayRead reports whether the user may be shown what a filter passes, once or by
	// following a stream. changed is closed when the answer may be another one.
	MayRead(follow bool, f *feed.Filter) (ok bool, changed <-chan struct{})
}

var (
	errUnauthorized = bad("log in with Basic authentication as one of the users of ACL")
	errForbidden    = bad("this user has no permissions to read all the keys that the request would show, or to read the feed at all; " +
		"filters must lie within the key patterns that the user may read, as prefix=p does within ~p*")
)

// login finds out who asks; it has answered if nobody may. Without Options.Login
// everybody may read everything, and the reader is nil.
func (s *Server) login(w http.ResponseWriter, r *http.Request) (reader Reader, ok bool) {
	if s.opt.Login == nil {
		return nil, true
	}
	name, password, given := r.BasicAuth()
	if reader = s.opt.Login(name, password, given); reader == nil {
		w.Header().Set("WWW-Authenticate", `Basic realm="kevy", charset="UTF-8"`)
		answerError(w, http.StatusUnauthorized, errUnauthorized)
		return nil, false
	}
	return reader, true
}

// while returns a context that ends when the reader may not read the query's
// answer any more; it has answered if that is so already. done frees what it takes.
func while(ctx context.Context, w http.ResponseWriter, reader Reader, q *query) (_ context.Context, done func(), ok bool) {
	if reader == nil {
		return ctx, func() {}, true
	}
	may, changed := reader.MayRead(q.follow, &q.options.Filter)
	if !may {
		answerError(w, http.StatusForbidden, errForbidden)
		return nil, nil, false
	}
	ctx, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for may {
			select {
			case <-changed:
				may, changed = reader.MayRead(q.follow, &q.options.Filter)
			case <-ctx.Done():
				return
			}
		}
		end()
	}()
	return ctx, func() {
		end()
		<-ended
	}, true
}
