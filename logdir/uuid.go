package logdir

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
)

// UUID identifies a topic or a directory, as in Kafka. The zero value stands for none.
type UUID [16]byte

// firstFree is the lowest number that a UUID may have: Kafka keeps those below for itself.
const firstFree = 100

// textForm is Kafka's: base64 with '-' and '_', without padding, 22 characters.
var textForm = base64.RawURLEncoding.Strict()

// NewUUID returns a random UUID (version 4) whose text does not start with '-', which tools take for an option.
func NewUUID() UUID {
	for {
		var u UUID
		rand.Read(u[:]) // never fails
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if u.String()[0] != '-' {
			return u
		}
	}
}

// ParseUUID reads the text form.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	b, err := textForm.DecodeString(s)
	if err != nil || len(b) != len(u) {
		return UUID{}, fmt.Errorf("%q is not a UUID: want 22 characters of base64 (A-Z a-z 0-9 - _)", s)
	}
	copy(u[:], b)
	return u, nil
}

// IsZero reports whether u stands for none.
func (u UUID) IsZero() bool { return u == UUID{} }

// IsReserved reports whether u is one of the 100 lowest, which Kafka gives meanings of their own and never generates.
func (u UUID) IsReserved() bool {
	for _, b := range u[:15] {
		if b != 0 {
			return false
		}
	}
	return u[15] < firstFree
}

// String returns the text form: 22 characters of URL-safe base64 without padding.
func (u UUID) String() string { return textForm.EncodeToString(u[:]) }

// Hex returns 32 lower-case hexadecimal digits, the form in directory names.
func (u UUID) Hex() string { return hex.EncodeToString(u[:]) }

// MarshalText implements [encoding.TextMarshaler] with the text form.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (u *UUID) UnmarshalText(text []byte) (err error) {
	*u, err = ParseUUID(string(text))
	return err
}
