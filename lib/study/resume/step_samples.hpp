#pragma once

#include "spec/load.hpp"
#include "study/resume/config_changes.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::study {

/// How many samples a step of a checkpoint's run had, and how many it has where it is resumed:
/// loader.batch_size of each rank. 0: not known.
struct StepSamples {
  std::int64_t ranks_before = 0;
  std::int64_t ranks_now = 0;
  std::int64_t batch_before = 0;
  std::int64_t batch_now = 0;

  [[nodiscard]] bool are_known() const {
    return ranks_before > 0 && ranks_now > 0 && batch_before > 0 && batch_now > 0;
  }
  [[nodiscard]] std::int64_t global_before() const { return ranks_before * batch_before; }
  [[nodiscard]] std::int64_t global_now() const { return ranks_now * batch_now; }
};

/// Another loader.batch_size passes where it keeps the global batch.
void accept_same_global_batch(std::vector<ConfigChange>& changes, const StepSamples& samples);

/// What another number of ranks makes of the global batch, and the loader.batch_size that keeps it;
/// empty where nothing changes or the sizes are not known.
std::string global_batch_notice(const StepSamples& samples);

/// "; loader.batch_size=25 keeps the global batch of 50": a clause for a message. Empty where no
/// number does, or it is the one at hand.
std::string keeping_batch_clause(const StepSamples& samples);

}  // namespace trainctl::study
