#include "train/state/checkpoint_writer.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "checkpoint/parts.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

namespace trainctl::train {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(2);

checkpoint::Manifest::Part describe(const fs::path& part) {
  return {part.filename().string(), fs::file_size(part), container::stored_checksum(part)};
}

/// Beside the part: this rank gives up, so that rank 0 does not wait for it. An empty file needs no
/// space.
fs::path failure_sign(const fs::path& part) { return fs::path(part).concat(".failed"); }

}  // namespace

CheckpointWriter::CheckpointWriter(Options options)
    : options_(std::move(options)), store_(options_.folder) {}

WriteOutcome CheckpointWriter::run(const WriteJob& job, const std::atomic<bool>& cancelled) {
  WriteOutcome outcome;
  outcome.name = checkpoint::folder_name(job.manifest.moment());
  try {
    if (options_.place.rank == 0) {
      lead(job, cancelled, outcome);
    } else {
      follow(job, cancelled, outcome);
    }
  } catch (const std::exception& error) {
    outcome.failure = error.what();
  } catch (...) {
    outcome.failure = "an unknown failure";
  }
  return outcome;
}

void CheckpointWriter::lead(const WriteJob& job, const std::atomic<bool>& cancelled,
                            WriteOutcome& outcome) {
  const fs::path checkpoint = store_.begin(job.manifest.moment());
  try {
    publish(job, checkpoint, cancelled);
  } catch (...) {
    const std::exception_ptr cause = std::current_exception();
    try {
      store_.abandon(checkpoint);
    } catch (const Error&) {  // the next save tries again; the cause is what counts
    }
    std::rethrow_exception(cause);
  }
  outcome.committed = true;
  tidy(checkpoint);
}

void CheckpointWriter::publish(const WriteJob& job, const fs::path& checkpoint,
                               const std::atomic<bool>& cancelled) {
  checkpoint::StoredOnce stored = checkpoint::store_once(store_, checkpoint, job.entries);
  container::write(checkpoint::Store::part(checkpoint, 0), stored.part, job.meta);
  checkpoint::Manifest manifest = job.manifest;
  manifest.shared = std::move(stored.shared);
  manifest.parts.clear();
  for (int rank = 0; rank < options_.place.world_size; ++rank) {
    const fs::path part = checkpoint::Store::part(checkpoint, rank);
    await(part, failure_sign(part), cancelled);
    manifest.parts.push_back(describe(part));
  }
  await_listeners(job, cancelled);
  store_.commit(checkpoint, manifest);
}

/// Else a run that goes on from here, after all its processes were killed, lacks lines in its
/// history. A supervisor that stands still costs no checkpoint.
void CheckpointWriter::await_listeners(const WriteJob& job,
                                       const std::atomic<bool>& cancelled) const {
  if (!job.is_heard) return;
  const auto deadline =
      steady_clock::now() + std::chrono::duration<double>(options_.heard_deadline_s);
  while (!job.is_heard() && !cancelled && steady_clock::now() < deadline)
    std::this_thread::sleep_for(kPause);
}

/// Behind the commit: whatever fails here costs no checkpoint.
void CheckpointWriter::tidy(const fs::path& checkpoint) {
  store_.point(checkpoint::Link::last, checkpoint);
  const std::vector<checkpoint::Found> found = store_.list();
  const std::vector<std::string> best = best_names(found, options_.ranking, options_.top_k);
  if (!best.empty()) store_.point(checkpoint::Link::best, options_.folder / best.front());
  if (options_.top_k >= 0) store_.prune(best);
}

void CheckpointWriter::follow(const WriteJob& job, const std::atomic<bool>& cancelled,
                              WriteOutcome& outcome) {
  const fs::path checkpoint = options_.folder / outcome.name;
  const fs::path part = checkpoint::Store::part(checkpoint, options_.place.rank);
  await(checkpoint, {}, cancelled);
  try {
    container::write(part, job.entries, job.meta);
    outcome.committed = true;
  } catch (...) {
    std::ofstream{failure_sign(part)};
    throw;
  }
}

void CheckpointWriter::await(const fs::path& path, const fs::path& sign_of_failure,
                             const std::atomic<bool>& cancelled) const {
  const auto deadline =
      steady_clock::now() + std::chrono::duration<double>(options_.part_deadline_s);
  std::error_code ignored;
  while (!fs::exists(path, ignored)) {
    ENSURE(resource, !cancelled, "it was given up");
    ENSURE(resource, sign_of_failure.empty() || !fs::exists(sign_of_failure, ignored),
           "another rank could not write {}", path.filename().string());
    ENSURE(resource, steady_clock::now() < deadline, "{} did not come within {:g} s",
           printable(path.string()), options_.part_deadline_s);
    std::this_thread::sleep_for(kPause);
  }
}

std::vector<std::string> best_names(const std::vector<checkpoint::Found>& found,
                                    const Ranking& ranking, std::int64_t most) {
  std::vector<const checkpoint::Found*> ranked;
  for (const checkpoint::Found& one : found) {
    if (one.manifest && one.manifest->value && one.manifest->monitor == ranking.monitor)
      ranked.push_back(&one);
  }
  std::ranges::sort(ranked, [&](const auto* a, const auto* b) {
    const double left = *a->manifest->value, right = *b->manifest->value;
    if (left == right) return a->moment < b->moment;
    return ranking.mode == spec::Mode::min ? left < right : left > right;
  });
  std::vector<std::string> names;
  for (const checkpoint::Found* one : ranked) {
    if (most >= 0 && std::cmp_greater_equal(names.size(), most)) break;
    names.push_back(one->name);
  }
  return names;
}

}  // namespace trainctl::train
