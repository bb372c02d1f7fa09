package lualib

import (
	"math"

	"github.com/yuin/gopher-lua/ast"
)

// maxChain is how many operands of .. one call takes: as many registers.
const maxChain = 50

// arithmetic names of the operators that gopher-lua's machine has as Lua has them.
var arithmetic = map[token]string{'+': "+", '-': "-", '*': "*", '/': "/"}

// called makes a call of a function of this package, for one value.
func (p *parser) called(fn string, s site, args ...ast.Expr) *ast.FuncCallExpr {
	p.constant(constantPrefix + fn)
	f := &ast.StringExpr{Value: constantPrefix + fn}
	p.mark(f, site{})
	c := &ast.FuncCallExpr{Func: f, Args: args, AdjustRet: true}
	p.mark(c, s)
	if n := len(args); n > 0 {
		args[n-1] = p.single(args[n-1])
	}
	return c
}

// single makes an expression one value where it could be several.
func (p *parser) single(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		e.AdjustRet = true
	case *ast.Comma3Expr:
		e.AdjustRet = true
	}
	return e
}

// parenthesized is (e).
func (p *parser) parenthesized(e ast.Expr) ast.Expr {
	if c, ok := e.(*ast.FuncCallExpr); ok {
		delete(p.chains, c)
	}
	p.grouped[e] = true // nothing may be assigned to it
	return p.single(e)
}

// operate makes a binary operation.
func (p *parser) operate(op token, a, b ast.Expr) ast.Expr {
	s := site{kind: arithmeticSite, a: p.nameOf(a), b: p.nameOf(b)}
	switch op {
	case tkAnd, tkOr:
		e := &ast.LogicalOpExpr{Operator: op.text(), Lhs: a, Rhs: b}
		p.mark(e, s)
		return e
	case tkEq, tkNe, '<', '>', tkLe, tkGe:
		e := &ast.RelationalOpExpr{Operator: op.text(), Lhs: a, Rhs: b}
		p.mark(e, s)
		return e
	case tkConcat:
		return p.concat(a, b, s)
	case '%', '^':
		return p.called(map[token]string{'%': "mod", '^': "pow"}[op], s, a, b)
	}
	e := &ast.ArithmeticOpExpr{Operator: arithmetic[op], Lhs: a, Rhs: b}
	p.mark(e, s)
	// For each operation the compiler goes through all of its arithmetic.
	p.folds[e] = p.folds[a] + p.folds[b] + 1
	p.steps(p.folds[e])
	delete(p.folds, a)
	delete(p.folds, b)
	return e
}

// concat makes one call of a chain of .., which associates to the right.
func (p *parser) concat(a, b ast.Expr, s site) ast.Expr {
	if c, ok := b.(*ast.FuncCallExpr); ok && p.chains[c] && len(c.Args) < maxChain {
		c.Args = append([]ast.Expr{p.single(a)}, c.Args...)
		s.operands = append([]named{s.a}, p.sites[c.Line()].operands...)
		p.mark(c, s)
		return c
	}
	s.operands = []named{s.a, s.b}
	c := p.called("concat", s, p.single(a), b)
	p.chains[c] = true
	return c
}

func (p *parser) negate(e ast.Expr) ast.Expr {
	if n, ok := e.(*ast.NumberExpr); ok {
		f, _ := parseNumber(n.Value)
		if f != 0 && !math.IsNaN(f) {
			return p.numberExpr(-f)
		}
	}
	n := &ast.UnaryMinusOpExpr{Expr: e}
	p.folds[n] = p.folds[e] + 1
	delete(p.folds, e)
	p.mark(n, site{kind: arithmeticSite, a: p.nameOf(e), b: p.nameOf(e)})
	return n
}

func (p *parser) length(e ast.Expr) ast.Expr {
	return p.called("len", site{kind: arithmeticSite, a: p.nameOf(e)}, e)
}

// assignAll assigns to several variables: all values are known before the first
// is assigned to, and so is where in which tables. gopher-lua's compiler writes
// them as it goes. As in Lua 5.1 the last is assigned to first.
func (p *parser) assignAll(s *ast.AssignStmt) ast.Stmt {
	block := &ast.DoBlockStmt{}
	block.SetLine(s.Line())
	block.SetLastLine(s.Line())
	held := &ast.LocalAssignStmt{}
	// hold evaluates an expression into a variable of its own.
	hold := func(e ast.Expr) ast.Expr {
		switch e.(type) {
		case *ast.StringExpr, *ast.NumberExpr:
			return e
		}
		v := &ast.IdentExpr{Value: p.unique("(held)")}
		v.SetLine(e.Line())
		v.SetLastLine(e.Line())
		held.Names = append(held.Names, v.Value)
		held.Exprs = append(held.Exprs, p.single(e))
		return v
	}
	for i, e := range s.Lhs {
		if x, ok := e.(*ast.AttrGetExpr); ok {
			target := &ast.AttrGetExpr{Object: hold(x.Object), Key: hold(x.Key)}
			target.SetLine(x.Line())
			target.SetLastLine(x.Line())
			s.Lhs[i] = target
		}
	}
	values := &ast.LocalAssignStmt{Exprs: s.Rhs}
	for range s.Lhs {
		values.Names = append(values.Names, p.unique("(value)"))
	}
	for _, stmt := range []*ast.LocalAssignStmt{held, values} {
		if len(stmt.Names) > 0 {
			stmt.SetLine(s.Line())
			stmt.SetLastLine(s.Line())
			block.Stmts = append(block.Stmts, stmt)
		}
	}
	for i := len(s.Lhs) - 1; i >= 0; i-- {
		v := &ast.IdentExpr{Value: values.Names[i]}
		v.SetLine(s.Line())
		one := &ast.AssignStmt{Lhs: []ast.Expr{s.Lhs[i]}, Rhs: []ast.Expr{v}}
		one.SetLine(s.Line())
		one.SetLastLine(s.Line())
		block.Stmts = append(block.Stmts, one)
	}
	return block
}

// The values of a numeric for.
const (
	forInitial = "forinitial"
	forLimit   = "forlimit"
	forStep    = "forstep"
)

// forNumber sees that a value of a numeric for is a number.
func (p *parser) forNumber(e ast.Expr, which string, line int) ast.Expr {
	switch x := e.(type) {
	case *ast.NumberExpr:
		return e
	case *ast.FuncCallExpr:
		if f, ok := x.Func.(*ast.StringExpr); ok && f.Value == constantPrefix+"len" {
			return e
		}
	}
	return p.called(which, site{line: line}, e)
}

// callee is what a call calls. Functions of libraries are constants: they cannot
// be replaced, and to look them up twice, global and field, costs more than many
// of them.
func (p *parser) callee(e ast.Expr) ast.Expr {
	var path string
	switch x := e.(type) {
	case *ast.IdentExpr:
		if p.sites[x.Line()].a.kind != globalName {
			return e
		}
		path = x.Value
	case *ast.AttrGetExpr:
		lib, ok := x.Object.(*ast.IdentExpr)
		if !ok || p.sites[lib.Line()].a.kind != globalName {
			return e
		}
		key, ok := x.Key.(*ast.StringExpr)
		if !ok {
			return e
		}
		path = lib.Value + "." + key.Value
	default:
		return e
	}
	if p.fold(path) {
		p.constant(constantPrefix + path)
		f := &ast.StringExpr{Value: constantPrefix + path}
		p.mark(f, site{})
		return f
	}
	return e
}
