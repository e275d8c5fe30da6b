#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace trainctl::data {

/// Of the threads that load: below_trainer where they share cores with the training.
enum class Priority { normal, below_trainer };

/// Called first in every thread that loads: blocks signals and sets its name (at most 15
/// characters) and its share of the cores.
void prepare_thread(const char* name, Priority priority);

/// Workspaces for threads that come and go: as many as were ever in use at once.
template <class T>
class Pool {
 public:
  /// One workspace, given back at the end.
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

/// Runs make(i) for first <= i < end on `workers` threads, and take(i) for one after the other in
/// the caller, at most `ahead` behind what is being made; make(i) may write to its slot i mod
/// `ahead` until take(i) has returned. Where a make throws, everything before it is taken, and then
/// its exception leaves.
struct InOrder {
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t ahead = 1;
  int workers = 1;
};
void run_in_order(const InOrder& range, const std::function<void(std::int64_t)>& make,
                  const std::function<void(std::int64_t)>& take);

/// Runs `work` in `threads` threads, of which the caller is one, or in fewer where the system has
/// no more. Returns once all have ended, or throws what one of them threw.
void run_in_threads(std::int64_t threads, const std::function<void()>& work);

}  // namespace trainctl::data
