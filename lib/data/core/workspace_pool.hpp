#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace trainctl::data {

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

}  // namespace trainctl::data
