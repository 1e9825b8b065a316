package partition

import (
	"context"
	"sync"

	"github.com/tidemark-io/tidemark/internal/parallel"
	"github.com/tidemark-io/tidemark/kafkalog"
)

// CloseAll is [Log.Close] of all logs of an Env, none of which may be listed twice. If there are many they are made
// durable together, as [kafkalog.Env.CloseAll] does. It returns the errors in the order of the logs.
func CloseAll(env *kafkalog.Env, logs []*Log, workers int) []error {
	var shut struct {
		sync.Mutex
		logs  []*Log
		files []*kafkalog.Log // of each
	}
	each := func(n int, f func(i int)) {
		_ = parallel.Each(context.Background(), n, workers, f) // the context does not end
	}
	each(len(logs), func(i int) {
		l := logs[i]
		if !l.beginShut(ErrClosed) {
			return
		}
		files, ok := l.store.(*kafkalog.Log)
		if !ok || l.syncer.failure() != nil {
			l.endShut(l.closeFiles())
			return
		}
		shut.Lock()
		defer shut.Unlock()
		shut.logs, shut.files = append(shut.logs, l), append(shut.files, files)
	})
	for i, done := range env.CloseAll(shut.files, workers) {
		shut.logs[i].endShut(shut.logs[i].closedFiles(done))
	}
	errs := make([]error, len(logs))
	each(len(logs), func(i int) { errs[i] = logs[i].shutError() })
	return errs
}
