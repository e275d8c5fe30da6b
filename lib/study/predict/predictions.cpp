#include "study/predict/predictions.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "study/predict/prediction_parts.hpp"
#include "study/predict/prediction_text.hpp"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

template <class E>
E called(const char* what, const std::string& name) {
  const auto names = enum_names(E());
  const auto* found = std::ranges::find(names, name);
  const std::vector<std::string> all(names.begin(), names.end());
  ENSURE(config, found != names.end(), "{} is '{}'; there are {}", what, printable(name),
         join(all, ", "));
  return static_cast<E>(found - names.begin());
}

Format format_for(const PredictionWish& wish) {
  if (!wish.format.empty()) return called<Format>("--format", wish.format);
  const std::string extension = wish.file.extension().string();
  ENSURE(config, extension == ".csv" || extension == ".npy" || extension == ".jsonl",
         "the name {} does not tell the format: end it with .csv, .npy or .jsonl, or write "
         "--format",
         printable(wish.file.string()));
  return called<Format>("--format", extension.substr(1));
}

std::vector<Output> usual(const Meaning& meaning, Format format) {
  if (meaning.scale == Scale::none)
    return {meaning.one_class ? Output::classes : Output::prediction};
  if (!meaning.one_class || format == Format::npy) return {Output::probabilities};
  return {Output::classes, Output::probabilities};
}

void check_output(Output output, const Meaning& meaning) {
  if (output == Output::probabilities) {
    ENSURE(config, meaning.scale != Scale::none,
           "--outputs probabilities: this loss makes none of the model's outputs; take {}",
           meaning.one_class ? "class or logits" : "prediction");
  } else if (output == Output::classes) {
    ENSURE(config, meaning.one_class, "--outputs class: {}",
           meaning.scale == Scale::none
               ? "the model's outputs are numbers; take prediction"
               : "any number of classes may hold for a sample; take probabilities");
  } else if (output == Output::prediction) {
    ENSURE(config, meaning.scale == Scale::none && !meaning.one_class,
           "--outputs prediction is for models that learn numbers; take class, probabilities or "
           "logits");
  }
}

enum class Existing { kept, replaced };

void check_replaceable(const fs::path& file, Existing existing) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return;
  const std::string shown = printable(file.string());
  ENSURE(config, fs::is_regular_file(file, ignored),
         "{} is no regular file, and is not replaced; choose another --out", shown);
  ENSURE(config, existing == Existing::replaced,
         "{} exists; choose another --out, or replace it with --force", shown);
}

void check_file(const PredictionWish& wish) {
  std::error_code ignored;
  const std::string shown = printable(wish.file.string());
  const fs::path folder = fs::absolute(wish.file).parent_path();
  ENSURE(config, fs::is_directory(folder, ignored), "the folder of {} does not exist", shown);
  ENSURE(config, !fs::is_directory(wish.file, ignored), "{} is a folder; name a file", shown);
  check_replaceable(wish.file, wish.replaces ? Existing::replaced : Existing::kept);
}

/// Text that goes to the file a mebibyte at a time.
class Buffer {
 public:
  Buffer(int fd, std::string label) : fd_(fd), label_(std::move(label)) {}
  std::string& text() { return text_; }
  [[nodiscard]] bool is_full() const { return text_.size() >= kChunk; }
  void flush() {
    write_all(fd_, text_, label_);
    text_.clear();
  }

 private:
  static constexpr std::size_t kChunk = 1 << 20;
  int fd_;
  std::string label_;
  std::string text_;
};

}  // namespace

bool PredictionPlan::has(Output output) const {
  return std::ranges::find(outputs, output) != outputs.end();
}

PredictionPlan plan_predictions(const PredictionWish& wish, const Meaning& meaning) {
  check_file(wish);
  PredictionPlan plan{wish.file, format_for(wish), {}, meaning, wish.replaces};
  for (const std::string& name : wish.outputs) {
    const auto output = called<Output>("--outputs", name);
    check_output(output, meaning);
    ENSURE(config, !plan.has(output), "--outputs names {} twice", name);
    plan.outputs.push_back(output);
  }
  if (plan.outputs.empty()) plan.outputs = usual(meaning, plan.format);
  ENSURE(config, plan.format != Format::npy || plan.outputs.size() == 1,
         "an NPY file holds one array: name one of the --outputs, or choose another --format");
  return plan;
}

std::vector<std::string> distinct_names(const std::vector<std::string>& names,
                                        std::int64_t outputs) {
  if (!std::cmp_equal(names.size(), outputs)) return {};
  std::map<std::string, int> uses;
  for (const std::string& name : names) ++uses[name];
  std::vector<std::string> distinct;
  for (std::size_t i = 0; i < names.size(); ++i)
    distinct.push_back(uses[names[i]] == 1 ? names[i] : fmt::format("{}_{}", names[i], i));
  return distinct;
}

std::uint64_t known_bytes(const PredictionPlan& plan, std::int64_t samples, std::int64_t outputs) {
  if (plan.format != Format::npy) return 0;
  const auto rows = static_cast<std::uint64_t>(samples);
  const std::uint64_t row = plan.has(Output::classes)
                                ? sizeof(std::int64_t)
                                : static_cast<std::uint64_t>(outputs) * sizeof(float);
  return npy_header(plan, samples, outputs).size() + rows * row;
}

std::uint64_t part_bytes(std::int64_t samples, std::int64_t outputs, std::uint64_t target_bytes) {
  const std::uint64_t row = static_cast<std::uint64_t>(outputs) * sizeof(float) + target_bytes;
  return static_cast<std::uint64_t>(samples) * row;
}

void check_room(const fs::path& file, std::uint64_t bytes) {
  std::error_code failure;
  const fs::space_info space = fs::space(fs::absolute(file).parent_path(), failure);
  ENSURE(resource, failure || space.available >= bytes,
         "the predictions for {} take {}, but {} are free; make room, or choose another --out",
         printable(file.string()), human_bytes(static_cast<double>(bytes)),
         human_bytes(static_cast<double>(space.available)));
}

void write_predictions(const LeftParts& left, const PredictionPlan& plan,
                       const StopCheck& check_stop) {
  const events::Evaluated& told = left.told;
  PredictionParts parts(left.run_dir, left.world_size, told);
  check_room(plan.file, known_bytes(plan, told.samples, told.outputs));
  const fs::path file = fs::absolute(plan.file);
  write_atomically(file, [&](int fd) {
    Buffer buffer(fd, file.string());
    buffer.text() = head_of(plan, told);
    SampleRow row;
    while (parts.next(row)) {
      append_row(buffer.text(), plan, told, row);
      if (!buffer.is_full()) continue;
      buffer.flush();
      check_stop();
    }
    buffer.flush();
    check_stop();
    check_replaceable(file, plan.replaces ? Existing::replaced : Existing::kept);
  });
}

}  // namespace trainctl::study
