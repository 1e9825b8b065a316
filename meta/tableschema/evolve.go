package tableschema

import "fmt"

// Follows returns nil if a schema may be the next version after another of the same table (CAT-2): it may have columns more,
// which are nullable and whose ids no version had, and fewer; those that stay keep their order and may have another name, or
// a wider type. Anything else is the error. used reports whether an id was in any version so far.
//
// A wider type holds every value of the old one: an integer of more bits, where an unsigned one may become signed; a float of
// more bits; a decimal of more digits at the same scale; text and binary with large offsets.
func (s Schema) Follows(before Schema, used func(id int32) bool) error {
	last := -1
	for _, c := range s.Columns {
		at, stays := before.column(c.ID)
		switch {
		case !stays && used(c.ID):
			return fmt.Errorf("column %q has the field id %d, which an earlier version had", c.Name, c.ID)
		case !stays && !c.Nullable:
			return fmt.Errorf("column %q is new but not nullable", c.Name)
		case !stays:
			continue
		case at < last:
			return fmt.Errorf("column %q has moved", c.Name)
		}
		last = at
		if err := c.follows(before.Columns[at]); err != nil {
			return err
		}
	}
	return nil
}

// follows checks a column that stays.
func (c Column) follows(before Column) error {
	switch {
	case c.Nullable != before.Nullable:
		return fmt.Errorf("column %q changes whether it is nullable", c.Name)
	case !c.Type.Equal(before.Type) && !c.Type.widens(before.Type):
		return fmt.Errorf("column %q changes its type to one that is not wider", c.Name)
	}
	return nil
}

// widens reports whether every value of a type is a value of this one.
func (t Type) widens(from Type) bool {
	switch {
	case t.Kind == Int && from.Kind == Int:
		return t.Bits > from.Bits && (t.Signed || !from.Signed)
	case t.Kind == Float && from.Kind == Float:
		return t.Bits > from.Bits
	case t.Kind == Decimal && from.Kind == Decimal:
		return t.Scale == from.Scale && t.Precision > from.Precision && t.Bits >= from.Bits
	}
	return t.Kind == LargeUtf8 && from.Kind == Utf8 || t.Kind == LargeBinary && from.Kind == Binary
}
