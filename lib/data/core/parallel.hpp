#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace trainctl::data {

/// Priority of loader threads: below_trainer when they share cores with the training.
enum class Priority { normal, below_trainer };

/// Must be called first in every loader thread: blocks signals, sets the thread name (at most 15
/// characters) and the nice value.
void prepare_thread(const char* name, Priority priority);

/// Reusable workspaces for short-lived threads. The pool grows to the largest number in use at the
/// same time.
template <class T>
class Pool {
 public:
  /// Borrows one workspace and returns it in the destructor.
  class Lease {
   public:
    explicit Lease(Pool& pool) : pool_(pool), work_(pool.take()) {}
    ~Lease() { pool_.give(std::move(work_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    T& operator*() { return *work_; }
    T* operator->() { return work_.get(); }

   private:
    Pool& pool_;
    std::unique_ptr<T> work_;
  };

 private:
  std::unique_ptr<T> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<T>();
    std::unique_ptr<T> work = std::move(idle_.back());
    idle_.pop_back();
    return work;
  }
  void give(std::unique_ptr<T> work) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(work));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> idle_;
};

/// Runs make(i) for first <= i < end on `workers` threads, and take(i) in the caller, in ascending
/// order. At most `ahead` items are made but not taken: make(i) may write to slot i mod `ahead`
/// until take(i) returns. If a make() throws, all items before it are taken, then the exception is
/// rethrown.
struct InOrder {
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t ahead = 1;
  int workers = 1;
};
void run_in_order(const InOrder& range, const std::function<void(std::int64_t)>& make,
                  const std::function<void(std::int64_t)>& take);

/// Runs `work` in `threads` threads including the caller, or in fewer when the system cannot start
/// more. Returns when all have finished; rethrows an exception of one of them.
void run_in_threads(std::int64_t threads, const std::function<void()>& work);

}  // namespace trainctl::data
