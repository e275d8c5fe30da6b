#include "data/remote/fetch_ahead.hpp"

#include "data/core/parallel.hpp"
#include "data/core/run_control.hpp"
#include "data/remote/local_tier.hpp"

namespace trainctl::data {
namespace {

constexpr int kThreads = 8;                 // they mostly wait for responses
constexpr std::int64_t kMaxAhead = 16'384;  // samples
// A quarter of the budget is for samples that are not used yet.
constexpr std::uint64_t kShare = 4;

}  // namespace

FetchAhead::FetchAhead(std::shared_ptr<const Dataset> dataset, int readers)
    : dataset_(std::move(dataset)), source_(dataset_->fetchable()) {
  if (source_ == nullptr) return;
  max_bytes_ =
      remote_tier()->folder().budget() / kShare / static_cast<std::uint64_t>(std::max(readers, 1));
  threads_.reserve(kThreads);
  try {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
  } catch (const std::exception&) {
    // Fewer threads are enough; without any, the reader of a sample downloads it.
  }
}

FetchAhead::~FetchAhead() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

void FetchAhead::stop() {
  stop_.request_stop();
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_all();
}

std::uint64_t FetchAhead::memory(const Dataset& dataset, int readers) {
  if (dataset.fetchable() == nullptr) return 0;
  return static_cast<std::uint64_t>(kThreads + readers) * CachedObject::kBlock;
}

void FetchAhead::begin(Sequence sequence) {
  if (source_ == nullptr) return;
  const std::uint64_t fetches = remote_tier()->folder().fetches();
  const std::lock_guard lock(mutex_);
  if (sequence_number_ > 0 && fetches == fetches_) sequence.count = 0;
  fetches_ = fetches;
  sequence_ = std::move(sequence);
  ++sequence_number_;
  next_ = used_ = 0;
  bytes_ = 0;
  sizes_.clear();
  changed_.notify_all();
}

void FetchAhead::used(std::int64_t count) {
  if (source_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  for (const std::int64_t end = used_ + count; used_ < end; ++used_) {
    const auto found = sizes_.find(used_);
    if (found == sizes_.end()) continue;
    bytes_ -= found->second;
    sizes_.erase(found);
  }
  next_ = std::max(next_, used_);
  changed_.notify_all();
}

bool FetchAhead::has_work() const {
  if (estimated_bytes_ == 0 && in_flight_ > 0)
    return false;  // the first sample provides the size estimate
  return next_ < sequence_.count && next_ - used_ < kMaxAhead && bytes_ < max_bytes_;
}

void FetchAhead::run() {
  prepare_thread("trainctl-fetch", Priority::normal);
  const StopScope scope(stop_.get_token());
  try {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return quit_ || has_work(); });
      if (quit_) return;
      const std::int64_t number = next_++;
      const std::int64_t sample = sequence_.sample(number);
      const std::uint64_t sequence_number = sequence_number_;
      sizes_[number] = estimated_bytes_;
      bytes_ += estimated_bytes_;
      ++in_flight_;
      lock.unlock();
      const std::uint64_t bytes = fetch(sample);
      lock.lock();
      --in_flight_;
      if (estimated_bytes_ == 0) changed_.notify_all();
      if (bytes > 0) estimated_bytes_ = bytes;
      if (sequence_number != sequence_number_ || number < used_) continue;
      std::uint64_t& size = sizes_[number];
      bytes_ += bytes - std::exchange(size, bytes);
    }
  } catch (const std::exception&) {  // out of memory: samples are then downloaded when needed
  }
}

std::uint64_t FetchAhead::fetch(std::int64_t sample) const {
  try {
    return source_->fetch(sample);
  } catch (const std::exception&) {  // the reader of the sample gets the same error and reports it
    return 0;
  }
}

}  // namespace trainctl::data
