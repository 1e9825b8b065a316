package command

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nameValue sets the name of a flag's value in the help, where pflag would show its Go type. A name in back quotes would
// do so too, but pflag repeats that in the description.
func nameValue(flags *pflag.FlagSet, flag, name string) {
	f := flags.Lookup(flag)
	if list, ok := f.Value.(listValue); ok {
		f.DefValue = strings.Join(list.GetSlice(), ",") // without pflag's brackets
		f.Value = namedList{list, name}
		return
	}
	f.Value = namedValue{f.Value, name}
}

// namedValue is the value of a flag with a name for the help.
type namedValue struct {
	pflag.Value
	name string
}

// Type returns the name for the help.
func (v namedValue) Type() string { return v.name }

// listValue is the value of a flag that may be repeated.
type listValue interface {
	pflag.Value
	pflag.SliceValue
}

// namedList is namedValue for a flag that may be repeated, which shell completion knows by its methods.
type namedList struct {
	listValue
	name string
}

// Type returns the name for the help.
func (v namedList) Type() string { return v.name }

// completeWords makes the shell offer words for the value of a flag.
func completeWords(c *cobra.Command, flag string, words ...string) {
	offer := cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	_ = c.RegisterFlagCompletionFunc(flag, offer) // it fails only for a flag that does not exist
}

// addWordFlag adds a flag that takes one of a few words, the first of which is the default. The caller checks the word.
func addWordFlag(c *cobra.Command, value *string, flag, short, doc string, words ...string) {
	c.Flags().StringVarP(value, flag, short, words[0], doc)
	nameValue(c.Flags(), flag, strings.Join(words, "|"))
	completeWords(c, flag, words...)
}
