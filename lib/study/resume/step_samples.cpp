#include "study/resume/step_samples.hpp"

#include <fmt/format.h>

namespace trainctl::study {

void accept_same_global_batch(std::vector<ConfigChange>& changes, const StepSamples& samples) {
  if (!samples.are_known() || samples.global_now() != samples.global_before()) return;
  for (ConfigChange& change : changes) {
    if (change.path != "loader.batch_size") continue;
    change.effect = Effect::not_bitwise;
    change.why = fmt::format("the global batch stays {}", samples.global_now());
  }
}

std::string keeping_batch_clause(const StepSamples& samples) {
  if (!samples.are_known() || samples.global_before() % samples.ranks_now != 0) return "";
  const std::int64_t batch = samples.global_before() / samples.ranks_now;
  if (batch == samples.batch_now) return "";
  return fmt::format("; loader.batch_size={} keeps the global batch of {}", batch,
                     samples.global_before());
}

std::string global_batch_notice(const StepSamples& samples) {
  if (!samples.are_known() || samples.global_now() == samples.global_before()) return "";
  const std::string keeps = keeping_batch_clause(samples);
  return fmt::format(
      "the global batch is {} now and was {}: {} of loader.batch_size {}, and {} of {} "
      "before{}",
      samples.global_now(), samples.global_before(),
      samples.ranks_now == 1 ? "1 rank" : fmt::format("{} ranks", samples.ranks_now),
      samples.batch_now, samples.ranks_before, samples.batch_before,
      keeps.empty() ? "; no loader.batch_size keeps it" : keeps);
}

}  // namespace trainctl::study
