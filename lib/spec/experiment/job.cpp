#include "spec/experiment/job.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"

namespace trainctl::spec {
namespace {

constexpr const char* kSchema = "trainctl.task/2";
constexpr std::array kKeys{"schema",      "kind",    "split",       "weights",
                           "input",       "learned", "model_input", "trained_on",
                           "division",    "resume",  "replay",      "accepts_data_change",
                           "until_epoch", "quantize"};
constexpr std::array kInputKeys{"inputs",  "targets",    "shape",
                                "outputs", "vocab_size", "padding_id"};
constexpr std::array kLearnedKeys{"targets", "outputs", "labeled"};
constexpr std::array kQuantizeKeys{"calibrate", "observer"};
constexpr std::array kSplits{"train", "val", "test"};

std::string text_of(const Json& json, const char* key) {
  ENSURE(config, json.contains(key) && json[key].is_string(), "'{}' must be a text", key);
  return json[key].get<std::string>();
}

bool flag_of(const Json& json, const char* key) {
  ENSURE(config, json.contains(key) && json[key].is_boolean(), "'{}' must be true or false", key);
  return json[key].get<bool>();
}

void check_keys(const Json& json, std::span<const char* const> known) {
  ENSURE(config, json.is_object(), "the content must be a JSON object");
  for (const auto& [key, value] : json.items()) {
    ENSURE(config, std::ranges::find(known, key) != known.end(), "unknown key '{}'",
           printable(key));
  }
}

Json json_of(const LearnedTargets& learned) {
  return {{"targets", enum_name(learned.targets)},
          {"outputs", learned.outputs},
          {"labeled", learned.labeled}};
}

/// Returns the enumerator with the name under `key`.
template <class Enum>
Enum named(const Json& json, const char* key) {
  const std::string name = text_of(json, key);
  const auto found = enum_called<Enum>(name);
  ENSURE(config, found.has_value(), "unknown {} '{}'", key, printable(name));
  return *found;
}

/// Returns a size or count, which must be at least 1.
std::int64_t size_of(const Json& json, const char* key) {
  ENSURE(config, json.is_number_unsigned(), "'{}' must be a positive integer", key);
  const auto size = json.get<std::uint64_t>();
  ENSURE(config, size > 0 && size <= INT32_MAX, "'{}' must be from 1 to {}, got {}", key, INT32_MAX,
         size);
  return static_cast<std::int64_t>(size);
}

std::int64_t outputs_in(const Json& json) {
  return size_of(json.contains("outputs") ? json["outputs"] : Json(), "outputs");
}

LearnedTargets parse_learned(const Json& json) {
  check_keys(json, kLearnedKeys);
  return {named<Targets>(json, "targets"), outputs_in(json), flag_of(json, "labeled")};
}

Json json_of(const ModelInput& input) {
  Json json{{"inputs", enum_name(input.kind.inputs)},
            {"targets", enum_name(input.kind.targets)},
            {"shape", input.shape},
            {"outputs", input.outputs}};
  if (input.kind.vocab_size > 0) json["vocab_size"] = input.kind.vocab_size;
  if (input.kind.padding_id >= 0) json["padding_id"] = input.kind.padding_id;
  return json;
}

ModelInput parse_input(const Json& json) {
  check_keys(json, kInputKeys);
  ModelInput input{
      {named<Inputs>(json, "inputs"), named<Targets>(json, "targets")}, {}, outputs_in(json)};
  ENSURE(config, json.contains("shape") && json["shape"].is_array() && !json["shape"].empty(),
         "'shape' must be a list of numbers");
  for (const Json& extent : json["shape"]) input.shape.push_back(size_of(extent, "shape"));
  if (json.contains("vocab_size"))
    input.kind.vocab_size = size_of(json["vocab_size"], "vocab_size");
  if (json.contains("padding_id")) {
    const Json& id = json["padding_id"];
    ENSURE(config, id.is_number_unsigned() && id.get<std::uint64_t>() <= INT32_MAX,
           "'padding_id' must be from 0 to {}", INT32_MAX);
    input.kind.padding_id = id.get<std::int64_t>();
  }
  return input;
}

Quantization parse_quantization(const Json& json) {
  check_keys(json, kQuantizeKeys);
  return {size_of(json.value("calibrate", Json()), "calibrate"), named<Observer>(json, "observer")};
}

}  // namespace

bool operator==(const ModelInput& one, const ModelInput& other) {
  return one.kind == other.kind && one.shape == other.shape && one.outputs == other.outputs;
}

const char* name_of(JobKind kind) { return enum_name(kind); }

JobKind kind_called(const std::string& name) {
  const auto found = enum_called<JobKind>(name);
  ENSURE(config, found.has_value(), "unknown kind '{}'", printable(name));
  return *found;
}

std::string dump_job(const Job& job) {
  Json json{{"schema", kSchema},
            {"kind", name_of(job.kind)},
            {"split", job.split},
            {"weights", job.weights.string()}};
  if (!job.input.empty()) json["input"] = job.input.string();
  if (!job.replay.empty()) json["replay"] = job.replay.string();
  if (job.learned) json["learned"] = json_of(*job.learned);
  if (job.model_input) json["model_input"] = json_of(*job.model_input);
  if (!job.trained_on.empty()) json["trained_on"] = job.trained_on;
  if (!job.division.empty()) json["division"] = job.division;
  if (!job.resume.empty()) json["resume"] = job.resume.string();
  if (job.accepts_data_change) json["accepts_data_change"] = true;
  if (job.until_epoch) json["until_epoch"] = *job.until_epoch;
  if (job.quantize)
    json["quantize"] = {{"calibrate", job.quantize->calibrate},
                        {"observer", enum_name(job.quantize->observer)}};
  return to_pretty(json) + "\n";
}

Job parse_job(std::string_view text) {
  const Json json = parse_json(text);
  check_keys(json, kKeys);
  ENSURE(config, text_of(json, "schema") == kSchema, "the schema must be {}", kSchema);
  Job job{kind_called(text_of(json, "kind")), text_of(json, "split"), text_of(json, "weights")};
  ENSURE(config, std::ranges::find(kSplits, job.split) != kSplits.end(), "unknown split '{}'",
         printable(job.split));
  if (json.contains("input")) job.input = text_of(json, "input");
  if (json.contains("replay")) job.replay = text_of(json, "replay");
  if (json.contains("learned")) job.learned = parse_learned(json["learned"]);
  if (json.contains("model_input")) job.model_input = parse_input(json["model_input"]);
  if (json.contains("trained_on")) job.trained_on = text_of(json, "trained_on");
  if (json.contains("division")) job.division = text_of(json, "division");
  if (json.contains("resume")) job.resume = text_of(json, "resume");
  if (json.contains("accepts_data_change"))
    job.accepts_data_change = flag_of(json, "accepts_data_change");
  if (json.contains("until_epoch")) job.until_epoch = size_of(json["until_epoch"], "until_epoch");
  if (json.contains("quantize")) job.quantize = parse_quantization(json["quantize"]);
  ENSURE(config, !job.until_epoch || job.kind == JobKind::train,
         "'until_epoch' applies only to training");
  ENSURE(config, job.resume.empty() || job.resume.is_absolute(),
         "'resume' must be an absolute path");
  ENSURE(config, job.resume.empty() || job.kind == JobKind::train,
         "'resume' applies only to training");
  ENSURE(config, !job.accepts_data_change || !job.resume.empty(),
         "'accepts_data_change' applies only to a resumed run");
  return job;
}

Job read_job(const std::filesystem::path& run_dir) {
  constexpr std::uint64_t kMostBytes = 1 << 16;
  const std::filesystem::path file = run_dir / kJobFile;
  if (!path_exists(file)) return {};
  const std::string text = read_file(file, kMostBytes, ReadFailure::config);
  return in_context(kJobFile, [&] { return parse_job(text); });
}

const DataSplit& split_called(const Experiment& experiment, const std::string& split) {
  const Dataset& dataset = experiment.dataset;
  if (split == "train") return dataset.train;
  const std::optional<DataSplit>& found = split == "val" ? dataset.val : dataset.test;
  ENSURE(config, found.has_value(),
         "the experiment has no dataset.{}\nhint: add it, or choose another --split", split);
  return *found;
}

DataSplit evaluated_split(const Experiment& experiment, const std::string& split) {
  const Dataset& dataset = experiment.dataset;
  if (split == "train") {
    DataSplit train = dataset.train;
    train.transforms = evaluating_transforms(experiment);
    return train;
  }
  return split_called(experiment, split);
}

const std::vector<config::Stage>& evaluating_transforms(const Experiment& experiment) {
  const Dataset& dataset = experiment.dataset;
  return dataset.val ? dataset.val->transforms : dataset.train.transforms;
}

std::filesystem::path part_file(const std::filesystem::path& run_dir, std::string_view what,
                                int rank) {
  return run_dir / "parts" / fmt::format("rank_{}.{}", rank, what);
}

}  // namespace trainctl::spec
