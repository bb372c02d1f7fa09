// Package acl knows the users of a server: their passwords and what each may
// run, touch and listen to, in the rules of Redis 7's access control lists, and
// what was refused.
//
// A User is an account: sessions keep it, and ask its Rights anew for each
// command. Rights never change; a change of a user exchanges them.
package acl
