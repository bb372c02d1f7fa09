package lualib

import (
	"fmt"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

// parser reads Lua 5.1 into the syntax tree of gopher-lua, whose own grammar is
// of another version and words errors its own way. What gopher-lua's machine does
// differently than Lua 5.1 is put into calls of functions of this package: see
// lower.go.
type parser struct {
	lexer
	fn     *function
	locals int // for unique names
	levels int
	// compileSteps are those of maxCompileSteps so far; folds are what is in the
	// arithmetic of an expression.
	compileSteps int
	folds        map[ast.Expr]int
	sites        []site
	fold         func(path string) bool // whether a library's function may be called as a constant
	// chains are the calls of concat that a .. may still be put in front of.
	chains map[*ast.FuncCallExpr]bool
	// grouped are expressions in parentheses.
	grouped map[ast.Expr]bool
}

// parseChunk reads a chunk. name is what errors call it.
func parseChunk(source, name string, fold func(string) bool) (stmts []ast.Stmt, sites []site, err error) {
	p := &parser{fold: fold, chains: map[*ast.FuncCallExpr]bool{}, grouped: map[ast.Expr]bool{}, folds: map[ast.Expr]int{}, sites: make([]site, 1)}
	p.src, p.chunk, p.line, p.lastLine = source, name, 1, 1
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*syntaxError)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	p.openFunction(0)
	p.fn.varargs = true
	p.next()
	stmts = p.chunkStmts()
	p.check(tkEOF)
	return stmts, p.sites, nil
}

// mark gives a node the number of a new site.
func (p *parser) mark(n ast.PositionHolder, s site) int {
	if s.line == 0 {
		s.line = p.lastLine
	}
	p.sites = append(p.sites, s)
	id := len(p.sites) - 1
	n.SetLine(id)
	n.SetLastLine(id)
	return id
}

func (p *parser) expected(t token) { p.failNear("'" + t.text() + "' expected") }

func (p *parser) check(t token) {
	if p.t.kind != t {
		p.expected(t)
	}
}

func (p *parser) checkNext(t token) {
	p.check(t)
	p.next()
}

func (p *parser) accept(t token) bool {
	if p.t.kind != t {
		return false
	}
	p.next()
	return true
}

func (p *parser) checkMatch(what, who token, line int) {
	if p.accept(what) {
		return
	}
	if line == p.line {
		p.expected(what)
	}
	p.failNear(fmt.Sprintf("'%s' expected (to close '%s' at line %d)", what.text(), who.text(), line))
}

func (p *parser) name() string {
	p.check(tkName)
	s := p.t.text
	p.next()
	return s
}

func (p *parser) enter() {
	p.levels++
	if p.levels > maxLevels {
		p.fail("chunk has too many syntax levels", "", false)
	}
}

func (p *parser) leave() { p.levels-- }

// chain fails if n parts of one kind follow one another and are more than there may
// be.
func (p *parser) chain(n int) {
	if n > maxInRow {
		p.fail("chunk has too many syntax levels", "", false)
	}
}

func blockEnds(t token) bool {
	switch t {
	case tkElse, tkElseif, tkEnd, tkUntil, tkEOF:
		return true
	}
	return false
}

// chunkStmts reads statements up to the end of their block.
func (p *parser) chunkStmts() []ast.Stmt {
	var stmts []ast.Stmt
	p.enter()
	for last := false; !last && !blockEnds(p.t.kind); {
		var s ast.Stmt
		s, last = p.statement()
		stmts = append(stmts, s)
		p.accept(';')
	}
	p.leave()
	return stmts
}

// blockStmts reads statements in a scope of their own.
func (p *parser) blockStmts() []ast.Stmt {
	p.openBlock(false)
	stmts := p.chunkStmts()
	p.closeBlock()
	return stmts
}

func (p *parser) statement() (s ast.Stmt, last bool) {
	line := p.line
	switch p.t.kind {
	case tkIf:
		return p.ifStmt(line), false
	case tkWhile:
		p.next()
		w := &ast.WhileStmt{Condition: p.expr()}
		p.checkNext(tkDo)
		p.openBlock(true)
		w.Stmts = p.blockStmts()
		p.checkMatch(tkEnd, tkWhile, line)
		p.closeBlock()
		p.mark(w, site{line: line})
		return w, false
	case tkDo:
		p.next()
		d := &ast.DoBlockStmt{Stmts: p.blockStmts()}
		p.checkMatch(tkEnd, tkDo, line)
		p.mark(d, site{line: line})
		return d, false
	case tkFor:
		return p.forStmt(line), false
	case tkRepeat:
		p.next()
		p.openBlock(true)
		p.openBlock(false)
		r := &ast.RepeatStmt{Stmts: p.chunkStmts()}
		p.checkMatch(tkUntil, tkRepeat, line)
		r.Condition = p.expr()
		p.closeBlock()
		p.closeBlock()
		p.mark(r, site{line: line})
		return r, false
	case tkFunction:
		return p.functionStmt(line), false
	case tkLocal:
		p.next()
		if p.accept(tkFunction) {
			return p.localFunction(line), false
		}
		return p.localStmt(), false
	case tkReturn:
		return p.returnStmt(), true
	case tkBreak:
		p.next()
		b := &ast.BreakStmt{}
		p.mark(b, site{})
		scope := p.fn.block
		for scope != nil && !scope.breakable {
			scope = scope.parent
		}
		if scope == nil {
			p.failNear("no loop to break")
		}
		return b, true
	}
	return p.exprStmt(), false
}

func (p *parser) ifStmt(line int) ast.Stmt {
	first := &ast.IfStmt{}
	p.mark(first, site{line: line})
	at := first
	p.next()
	at.Condition = p.expr()
	p.checkNext(tkThen)
	at.Then = p.blockStmts()
	depth := p.fn.depth
	for n := 1; p.t.kind == tkElseif; n++ {
		p.chain(n)
		p.fn.depth++
		p.next()
		next := &ast.IfStmt{Condition: p.expr()}
		p.mark(next, site{})
		p.checkNext(tkThen)
		next.Then = p.blockStmts()
		at.Else = []ast.Stmt{next}
		at = next
	}
	if p.accept(tkElse) {
		at.Else = p.blockStmts()
	}
	p.fn.depth = depth
	p.checkMatch(tkEnd, tkIf, line)
	return first
}

func (p *parser) forStmt(line int) ast.Stmt {
	p.next()
	p.openBlock(true)
	var s ast.Stmt
	name := p.name()
	switch p.t.kind {
	case '=':
		s = p.numericFor(name, line)
	case ',', tkIn:
		s = p.genericFor(name, line)
	default:
		p.failNear("'=' or 'in' expected")
	}
	p.checkMatch(tkEnd, tkFor, line)
	p.closeBlock()
	return s
}

func (p *parser) numericFor(name string, line int) ast.Stmt {
	p.next()
	f := &ast.NumberForStmt{}
	f.Init = p.forNumber(p.expr(), forInitial, line)
	p.checkNext(',')
	f.Limit = p.forNumber(p.expr(), forLimit, line)
	if p.accept(',') {
		f.Step = p.forNumber(p.expr(), forStep, line)
	} else {
		f.Step = p.numberExpr(1)
	}
	p.mark(f, site{line: line})
	p.room(4)
	p.fn.nlocals += 3
	p.checkNext(tkDo)
	for _, e := range []ast.Expr{f.Init, f.Limit, f.Step} {
		p.sites[e.Line()].line = p.lastLine // there all three are looked at
	}
	p.openBlock(false)
	f.Name = p.declare(name)
	f.Stmts = p.chunkStmts()
	p.closeBlock()
	p.fn.nlocals -= 3
	return f
}

func (p *parser) genericFor(name string, line int) ast.Stmt {
	f := &ast.GenericForStmt{}
	names := []string{name}
	for p.accept(',') {
		names = append(names, p.name())
	}
	p.checkNext(tkIn)
	f.Exprs = p.exprList()
	p.mark(f, site{line: line, kind: forSite, a: named{localName, "(for generator)"}})
	p.room(3 + len(names))
	p.fn.nlocals += 3
	p.checkNext(tkDo)
	p.openBlock(false)
	for _, n := range names {
		f.Names = append(f.Names, p.declare(n))
	}
	f.Stmts = p.chunkStmts()
	p.closeBlock()
	p.fn.nlocals -= 3
	return f
}

func (p *parser) functionStmt(line int) ast.Stmt {
	p.next()
	target := p.variable(p.name())
	method := false
	for p.t.kind == '.' || p.t.kind == ':' {
		method = p.t.kind == ':'
		p.next()
		target = p.index(target, p.stringExpr(p.name()))
		if method {
			break
		}
	}
	fn := p.body(method, line)
	s := &ast.AssignStmt{Lhs: []ast.Expr{target}, Rhs: []ast.Expr{fn}}
	p.mark(s, site{line: line})
	return s
}

func (p *parser) localFunction(line int) ast.Stmt {
	name := p.name()
	p.room(1)
	unique := p.declare(name)
	s := &ast.LocalAssignStmt{Names: []string{unique}, Exprs: []ast.Expr{p.body(false, p.line)}}
	p.mark(s, site{line: line})
	return s
}

func (p *parser) localStmt() ast.Stmt {
	s := &ast.LocalAssignStmt{}
	var names []string
	for {
		names = append(names, p.name())
		p.room(len(names))
		if !p.accept(',') {
			break
		}
	}
	if p.accept('=') {
		s.Exprs = p.exprList()
	}
	for _, n := range names {
		s.Names = append(s.Names, p.declare(n))
	}
	p.mark(s, site{})
	return s
}

func (p *parser) returnStmt() ast.Stmt {
	p.next()
	s := &ast.ReturnStmt{}
	if !blockEnds(p.t.kind) && p.t.kind != ';' {
		s.Exprs = p.exprList()
	}
	p.mark(s, site{})
	return s
}

// exprStmt reads a call or an assignment.
func (p *parser) exprStmt() ast.Stmt {
	e, call := p.primary()
	if call {
		s := &ast.FuncCallStmt{Expr: e}
		p.mark(s, site{})
		return s
	}
	s := &ast.AssignStmt{Lhs: []ast.Expr{p.assignable(e)}}
	for p.accept(',') {
		if len(s.Lhs) >= maxLevels {
			p.limit(maxLevels, "variables in assignment")
		}
		e, call = p.primary()
		if call {
			p.failNear("syntax error")
		}
		s.Lhs = append(s.Lhs, p.assignable(e))
	}
	p.checkNext('=')
	s.Rhs = p.exprList()
	p.mark(s, site{})
	// What an assignment writes to is located behind it.
	for _, e := range s.Lhs {
		p.sites[e.Line()].line = p.lastLine
	}
	if len(s.Lhs) > 1 {
		return p.assignAll(s)
	}
	return s
}

// assignable fails unless an expression can be assigned to.
func (p *parser) assignable(e ast.Expr) ast.Expr {
	switch e.(type) {
	case *ast.IdentExpr, *ast.AttrGetExpr:
		if !p.grouped[e] {
			return e
		}
	}
	p.failNear("syntax error")
	return nil
}

func (p *parser) exprList() []ast.Expr {
	list := []ast.Expr{p.expr()}
	for p.accept(',') {
		list = append(list, p.expr())
	}
	return list
}

// body reads a function from its parameters on.
func (p *parser) body(method bool, line int) ast.Expr {
	p.openFunction(line)
	f := &ast.FunctionExpr{ParList: &ast.ParList{}}
	p.checkNext('(')
	add := func(name string) {
		f.ParList.Names = append(f.ParList.Names, p.declare(name))
	}
	if method {
		add("self")
	}
	for p.t.kind != ')' {
		switch p.t.kind {
		case tkName:
			p.room(1)
			add(p.name())
		case tkDots:
			p.next()
			f.ParList.HasVargs, p.fn.varargs = true, true
			p.room(1)
			p.show("arg", "arg")
		default:
			p.failNear("<name> or '...' expected")
		}
		if f.ParList.HasVargs || !p.accept(',') {
			break
		}
		if p.t.kind == ')' {
			p.failNear("<name> or '...' expected")
		}
	}
	p.checkNext(')')
	f.Stmts = p.chunkStmts()
	p.mark(f, site{line: p.line})
	p.checkMatch(tkEnd, tkFunction, line)
	p.closeFunction()
	return f
}

// expr reads an expression.
func (p *parser) expr() ast.Expr { return p.binary(0) }

// priority of binary operators: left and right.
func priority(t token) (left, right int) {
	switch t {
	case '+', '-':
		return 6, 6
	case '*', '/', '%':
		return 7, 7
	case '^':
		return 10, 9
	case tkConcat:
		return 5, 4
	case tkNe, tkEq, '<', tkLe, '>', tkGe:
		return 3, 3
	case tkAnd:
		return 2, 2
	case tkOr:
		return 1, 1
	}
	return 0, 0
}

const unaryPriority = 8

func (p *parser) binary(limit int) ast.Expr {
	p.enter()
	var e ast.Expr
	switch op := p.t.kind; op {
	case tkNot:
		p.next()
		n := &ast.UnaryNotOpExpr{Expr: p.binary(unaryPriority)}
		p.mark(n, site{})
		e = n
	case '-':
		p.next()
		e = p.negate(p.binary(unaryPriority))
	case '#':
		p.next()
		e = p.length(p.binary(unaryPriority))
	default:
		e = p.simple()
	}
	for n := 1; ; n++ {
		op := p.t.kind
		left, right := priority(op)
		if left <= limit {
			break
		}
		p.chain(n)
		p.next()
		e = p.operate(op, e, p.binary(right))
	}
	p.leave()
	return e
}

func (p *parser) stringExpr(s string) ast.Expr {
	p.constant(s)
	e := &ast.StringExpr{Value: s}
	p.mark(e, site{})
	return e
}

func (p *parser) numberExpr(f float64) ast.Expr {
	p.constant(f)
	e := &ast.NumberExpr{Value: strconv.FormatFloat(f, 'g', -1, 64)}
	p.mark(e, site{})
	return e
}

func (p *parser) simple() ast.Expr {
	var e ast.Expr
	switch p.t.kind {
	case tkNumber:
		e = p.numberExpr(p.t.num)
	case tkString:
		e = p.stringExpr(p.t.text)
	case tkNil:
		e = &ast.NilExpr{}
	case tkTrue:
		e = &ast.TrueExpr{}
	case tkFalse:
		e = &ast.FalseExpr{}
	case tkDots:
		if !p.fn.varargs {
			p.failNear("cannot use '...' outside a vararg function")
		}
		e = &ast.Comma3Expr{}
	case '{':
		return p.table()
	case tkFunction:
		p.next()
		return p.body(false, p.line)
	default:
		e, _ := p.primary()
		return e
	}
	p.next()
	if e.Line() == 0 {
		p.mark(e, site{})
	}
	return e
}

func (p *parser) table() ast.Expr {
	line := p.line
	t := &ast.TableExpr{}
	p.mark(t, site{line: line, kind: indexSite})
	p.checkNext('{')
	for p.t.kind != '}' {
		f := &ast.Field{}
		switch {
		case p.t.kind == tkName && p.peek() == '=':
			f.Key = p.stringExpr(p.name())
			p.next()
		case p.t.kind == '[':
			p.next()
			f.Key = p.expr()
			p.checkNext(']')
			p.checkNext('=')
		}
		f.Value = p.expr()
		t.Fields = append(t.Fields, f)
		if !p.accept(',') && !p.accept(';') {
			break
		}
	}
	p.checkMatch('}', '{', line)
	return t
}

// primary reads a name or an expression in parentheses and what is applied to it.
// call says that it ends with a call.
func (p *parser) primary() (e ast.Expr, call bool) {
	switch p.t.kind {
	case tkName:
		e = p.variable(p.name())
	case '(':
		line := p.line
		p.next()
		e = p.parenthesized(p.expr())
		p.checkMatch(')', '(', line)
	default:
		p.failNear("unexpected symbol")
	}
	for n := 1; ; n++ {
		p.chain(n)
		switch p.t.kind {
		case '.':
			p.next()
			e, call = p.index(e, p.stringExpr(p.name())), false
		case '[':
			p.next()
			key := p.expr()
			p.checkNext(']')
			e, call = p.index(e, key), false
		case ':':
			p.next()
			name := p.name()
			p.constant(name)
			line := p.line
			c := &ast.FuncCallExpr{Receiver: e, Method: name, Args: p.args()}
			p.mark(c, site{line: line, kind: callSite, a: named{methodName, name}, b: p.nameOf(e)})
			e, call = c, true
		case '(', tkString, '{':
			line := p.line
			c := &ast.FuncCallExpr{Func: p.callee(e), Args: p.args()}
			p.mark(c, site{line: line, kind: callSite, a: p.nameOf(e)})
			e, call = c, true
		default:
			return e, call
		}
	}
}

func (p *parser) args() []ast.Expr {
	switch p.t.kind {
	case tkString:
		e := p.stringExpr(p.t.text)
		p.next()
		return []ast.Expr{e}
	case '{':
		return []ast.Expr{p.table()}
	case '(':
		line := p.line
		if line != p.lastLine {
			p.failNear("ambiguous syntax (function call x new statement)")
		}
		p.next()
		if p.accept(')') {
			return nil
		}
		list := p.exprList()
		p.checkMatch(')', '(', line)
		return list
	}
	p.failNear("function arguments expected")
	return nil
}

// variable is what a name stands for.
func (p *parser) variable(name string) ast.Expr {
	kind, unique := p.resolve(name)
	if kind == globalName {
		p.constant(name)
	}
	e := &ast.IdentExpr{Value: unique}
	p.mark(e, site{kind: indexSite, a: named{kind, name}})
	return e
}

// index is object[key].
func (p *parser) index(object, key ast.Expr) ast.Expr {
	e := &ast.AttrGetExpr{Object: object, Key: key}
	p.mark(e, site{kind: indexSite, a: p.nameOf(object)})
	return e
}

// nameOf returns how an error names the value of an expression.
func (p *parser) nameOf(e ast.Expr) named {
	switch e := e.(type) {
	case *ast.IdentExpr:
		return p.sites[e.Line()].a
	case *ast.AttrGetExpr:
		if key, ok := e.Key.(*ast.StringExpr); ok {
			return named{fieldName, cText(key.Value)}
		}
		return named{fieldName, "?"}
	}
	return named{}
}
