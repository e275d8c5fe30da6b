#include "study/run/complete_run.hpp"

#include "base/error.hpp"
#include "base/exact_double.hpp"
#include "base/strings.hpp"
#include "checkpoint/contents.hpp"
#include "checkpoint/names.hpp"
#include "spec/experiment/duration.hpp"
#include "study/run/continuation.hpp"
#include "study/run/run_start.hpp"

#include <system_error>

namespace trainctl::study {
namespace {

/// Null where no start of the run has ended well.
Json successful_result(const fs::path& run_dir) {
  constexpr std::uint64_t kMostBytes = 16 << 20;
  const fs::path file = run_dir / "result.json";
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return nullptr;
  Json result = Json::parse(read_file(file, kMostBytes, ReadFailure::resource), nullptr, false);
  const bool is_ok = result.is_object() && result.value("verdict", Json()) == "ok";
  return is_ok ? std::move(result) : Json();
}

/// A text value of the trainer in the part of rank 0; empty where there is none.
std::string text_in(const Json& values, const char* key) {
  const auto found = values.is_object() ? values.find(key) : values.end();
  return found != values.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// What to raise where a limit of the request is reached; empty where none is.
std::string reached_limit(const RunRequest& request, const checkpoint::Manifest& manifest) {
  const spec::Trainer& trainer = request.loaded.experiment.trainer;
  const std::int64_t done = manifest.epoch;
  if (const auto epochs = trainer.epoch_limit(); epochs && done >= *epochs)
    return fmt::format("raise trainer.max_epochs ({} of {} epochs are done)", done, *epochs);
  if (trainer.max_steps && manifest.global_step >= *trainer.max_steps)
    return fmt::format("raise trainer.max_steps ({} of {} steps are done)",
                       with_thousands(manifest.global_step), with_thousands(*trainer.max_steps));
  if (request.task.until_epoch && done >= *request.task.until_epoch)
    return fmt::format("raise --until-epoch ({} of {} epochs are done)", done,
                       *request.task.until_epoch);
  return "";
}

/// The same for what the values of the trainer tell, as the checkpoint has them.
std::string reached_end(const RunRequest& request, const Json& values) {
  const std::string early = text_in(values, "early_reason");
  if (!early.empty())
    return fmt::format("early stopping ended it ({}); start a new run to train longer",
                       printable(early));
  const auto& max_time = request.loaded.experiment.trainer.max_time;
  const auto most_s = max_time ? spec::parse_duration(*max_time) : std::nullopt;
  const auto elapsed_s = exact_double(text_in(values, "elapsed_s"));
  if (!most_s || !elapsed_s || *elapsed_s < *most_s) return "";
  return fmt::format("raise trainer.max_time ({} is used up)", *max_time);
}

}  // namespace

std::optional<RunOutcome> complete_run(const RunRequest& request, const fs::path& run_dir,
                                       const Origin& origin) {
  if (origin.checkpoint.empty()) return std::nullopt;
  Json result = successful_result(run_dir);
  if (result.is_null()) return std::nullopt;
  std::string why = reached_limit(request, origin.manifest);
  if (why.empty()) {
    const fs::path part = origin.checkpoint / checkpoint::part_name(0);
    why = reached_end(request, checkpoint::contents_of_file(part).training);
  }
  if (why.empty()) return std::nullopt;
  expect_same_experiment(request.loaded, run_dir, origin, world_size_of(request));
  RunOutcome outcome;
  outcome.folder = run_dir;
  outcome.ending.run_dir = run_dir.string();
  outcome.result = std::move(result);
  outcome.complete = "already complete: " + why;
  return outcome;
}

}  // namespace trainctl::study
