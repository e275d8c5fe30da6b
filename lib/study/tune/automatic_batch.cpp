#include "study/tune/automatic_batch.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "report/text/run_summary.hpp"
#include "study/tune/batch_size_search.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <variant>

namespace trainctl::study {
namespace {

BatchResult try_batch(std::int64_t batch, const AutoBatchRun& run, const PrintLine& print,
                      const Clock& clock) {
  std::vector<std::string> overrides = batch_trial(batch);
  if (run.request.nodes) overrides.emplace_back("++trainer.num_nodes=1");
  RunRequest request = run.remake_as_trial(overrides);
  request.folder.root = run.request.folder.root / "batch-size";
  request.folder.fixed.reset();
  const BatchResult result = run_batch_trial(request, clock);
  const auto* trial = std::get_if<BatchTrial>(&result);
  print(fmt::format(
      "batch {}  {}", with_thousands(batch),
      trial != nullptr ? report::rate_text(trial->samples_per_s) + " samples/s" : "failed"));
  return result;
}

RunRequest with_batch(std::int64_t batch, const AutoBatchRun& run) {
  RunRequest sized = run.remake({fmt::format("++loader.batch_size={}", batch)});
  sized.nodes = run.request.nodes;
  sized.node_flags = run.request.node_flags;
  sized.any_address = run.request.any_address;
  sized.connect_store = run.request.connect_store;
  return sized;
}

}  // namespace

RunRequest with_measured_batch(const AutoBatchRun& run, const PrintLine& print,
                               const Clock& clock) {
  const RunRequest& request = run.request;
  const auto before =
      request.resume ? resumed_batch(request.folder, *request.resume) : std::nullopt;
  if (before) return with_batch(*before, run);
  const BatchChoice choice =
      choose_batch(batch_budget(request.loaded.experiment.trainer),
                   [&](std::int64_t batch) { return try_batch(batch, run, print, clock); });
  if (choice.failure)
    throw Error(static_cast<ErrorKind>(choice.failure->exit_code),
                "cannot determine loader.batch_size (auto): " + choice.failure->message);
  print(fmt::format("chose loader.batch_size={} because {}; optimizer.lr was not adjusted",
                    choice.batch, choice.why));
  RunRequest found = with_batch(choice.batch, run);
  found.batch_size_why = choice.why;
  return found;
}

}  // namespace trainctl::study
