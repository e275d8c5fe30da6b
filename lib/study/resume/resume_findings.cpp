#include "study/resume/resume_findings.hpp"

#include "base/error.hpp"
#include "checkpoint/store.hpp"

#include <cstddef>

namespace trainctl::study {

using report::Agreement;
using report::Sameness;

namespace {

std::optional<fs::path> last_of(const fs::path& run_dir) {
  return checkpoint::Store(run_dir / "checkpoints").pointed(checkpoint::Link::last);
}

}  // namespace

Agreement finding(const std::optional<std::string>& difference) {
  if (difference) return {Sameness::different, *difference};
  return {Sameness::identical, ""};
}

Agreement compare_section(const fs::path& expected, const fs::path& found,
                          const checkpoint::Section& section) {
  const auto wanted = last_of(expected);
  const auto got = last_of(found);
  if (!wanted || !got) return {Sameness::untold, "a run has left no last checkpoint"};
  try {
    return finding(checkpoint::first_difference(*wanted, *got, section));
  } catch (const Error& error) {
    return {Sameness::different, error.what()};
  }
}

BatchDigests batch_digests(const std::vector<const report::RunRecord*>& records) {
  BatchDigests digests;
  for (const report::RunRecord* record : records) {
    for (const events::EpochEnded& epoch : record->epochs) {
      if (!epoch.data_digest.empty()) digests.epochs[epoch.epoch] = epoch.data_digest;
    }
    const auto finished = record->finished.find(0);
    if (finished != record->finished.end()) digests.run = finished->second.data_digest;
  }
  return digests;
}

Agreement compare(const BatchDigests& expected, const BatchDigests& found) {
  std::size_t told = 0;
  for (const auto& [epoch, digest] : expected.epochs) {
    const auto at = found.epochs.find(epoch);
    if (at == found.epochs.end()) continue;
    ++told;
    if (at->second != digest)
      return {Sameness::different,
              fmt::format("those of epoch {}: {} and not {}", epoch + 1, at->second, digest)};
  }
  if (!found.run.empty() && !expected.run.empty()) {
    ++told;
    if (found.run != expected.run)
      return {Sameness::different,
              fmt::format("those of the run: {} and not {}", found.run, expected.run)};
  }
  if (told == 0) return {Sameness::untold, "the runs have no digests of their batches in common"};
  return {Sameness::identical, ""};
}

}  // namespace trainctl::study
