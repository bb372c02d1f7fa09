package command

import (
	"math/bits"
	"slices"
)

// PartialSort sorts so much of list that the elements from index first to last,
// both included, are those of the sorted list. Where others are put, and which
// of equal elements come first, is as Redis has it: it selects with the
// quicksort of J. L. Bentley and M. D. McIlroy ("Engineering a Sort Function",
// Software: Practice and Experience 23, 1993), leaving out what lies outside of
// the range, and what it answers of equal elements depends on each exchange.
func PartialSort[T any](list []T, first, last int, compare func(a, b T) int) {
	partialSort(list, first, last, compare, 2*bits.Len(uint(len(list)))+maxSkewedSplits)
}

// maxSkewedSplits is how many splits beyond twice the best number a quicksort
// may make one inside the other. An input that was made to defeat it is then
// sorted by other means; only the order of equal elements is another.
const maxSkewedSplits = 64

const (
	insertionSortBelow = 7
	medianOfNineAbove  = 40
)

func partialSort[T any](list []T, first, last int, compare func(a, b T) int, splits int) {
	for {
		n := len(list)
		if n < insertionSortBelow {
			for i := 1; i < n; i++ {
				for j := i; j > 0 && compare(list[j-1], list[j]) > 0; j-- {
					list[j-1], list[j] = list[j], list[j-1]
				}
			}
			return
		}
		if splits--; splits < 0 {
			slices.SortStableFunc(list, compare)
			return
		}
		below, above := split(list, compare)
		// What is equal to the pivot lies between the two, in its place.
		if below > 1 && reaches(0, below, first, last) {
			partialSort(list[:below], first, last, compare, splits)
		}
		from := n - above
		if above <= 1 || !reaches(from, n, first, last) {
			return
		}
		list, first, last = list[from:], first-from, last-from
	}
}

// reaches reports whether the range from first to last is not all on one side of
// the elements from start to before end.
func reaches(start, end, first, last int) bool {
	return !(first < start && last < start) && !(first >= end && last >= end)
}

// split puts a pivot and what equals it between what is less, at the beginning,
// and what is greater, at the end, and returns how many these are. While it
// works, elements equal to the pivot gather at both ends.
func split[T any](list []T, compare func(a, b T) int) (below, above int) {
	n := len(list)
	p := pivot(list, compare)
	list[0], list[p] = list[p], list[0]
	equalLeft, left := 1, 1
	right, equalRight := n-1, n-1
	for {
		for left <= right {
			order := compare(list[left], list[0])
			if order > 0 {
				break
			}
			if order == 0 {
				list[equalLeft], list[left] = list[left], list[equalLeft]
				equalLeft++
			}
			left++
		}
		for left <= right {
			order := compare(list[right], list[0])
			if order < 0 {
				break
			}
			if order == 0 {
				list[right], list[equalRight] = list[equalRight], list[right]
				equalRight--
			}
			right--
		}
		if left > right {
			break
		}
		list[left], list[right] = list[right], list[left]
		left++
		right--
	}
	below, above = left-equalLeft, equalRight-right
	exchange(list, 0, left, min(equalLeft, below))
	exchange(list, left, n, min(above, n-1-equalRight))
	return below, above
}

// exchange swaps the n elements from index start on with the n before end.
func exchange[T any](list []T, start, end, n int) {
	for i := range n {
		list[start+i], list[end-n+i] = list[end-n+i], list[start+i]
	}
}

func pivot[T any](list []T, compare func(a, b T) int) int {
	n := len(list)
	low, mid, high := 0, n/2, n-1
	if n == insertionSortBelow {
		return mid
	}
	if n > medianOfNineAbove {
		step := n / 8
		low = median(list, low, low+step, low+2*step, compare)
		mid = median(list, mid-step, mid, mid+step, compare)
		high = median(list, high-2*step, high-step, high, compare)
	}
	return median(list, low, mid, high, compare)
}

// median returns which of three elements is the middle one.
func median[T any](list []T, a, b, c int, compare func(a, b T) int) int {
	if compare(list[a], list[b]) < 0 {
		switch {
		case compare(list[b], list[c]) < 0:
			return b
		case compare(list[a], list[c]) < 0:
			return c
		}
		return a
	}
	switch {
	case compare(list[b], list[c]) > 0:
		return b
	case compare(list[a], list[c]) < 0:
		return a
	}
	return c
}
