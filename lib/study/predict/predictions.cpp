#include "study/predict/predictions.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "report/text/table.hpp"
#include "spec/experiment/job.hpp"

#include <bit>
#include <cmath>
#include <system_error>

namespace trainctl::study {
namespace {

std::ifstream open_part(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  ENSURE(resource, file.good(), "cannot open {}, which a rank of this prediction has written",
         path.string());
  return file;
}

std::ifstream open_rows(const fs::path& path, std::int64_t rows, std::uint64_t row_bytes) {
  std::error_code failure;
  const std::uint64_t found = fs::file_size(path, failure);
  const std::uint64_t expected = static_cast<std::uint64_t>(rows) * row_bytes;
  ENSURE(resource, !failure && found == expected,
         "{} is damaged: it must have {} rows of {} bytes, got {} bytes in total\n"
         "hint: predict again without changing the folder",
         path.string(), rows, row_bytes, failure ? 0 : found);
  return open_part(path);
}

template <class T>
void read_row(std::ifstream& file, std::span<T> values) {
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size_bytes()));
  ENSURE(resource, file.good(),
         "cannot read the outputs that a rank has written to the run folder: a file is truncated");
}

std::string read_name(std::ifstream& file) {
  std::string line;
  std::getline(file, line);
  const Json name = parse_json(line);
  ENSURE(
      resource, name.is_string(),
      "cannot read the sample names that a rank has written to the run folder: a file is damaged");
  return name.get<std::string>();
}

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 4> kSoftmaxLosses{"cross_entropy", "nll", "focal",
                                                         "kl_div_with_logits"};
constexpr std::array<std::string_view, 4> kPlainLosses{"mse", "l1", "smooth_l1", "huber"};

bool is_one_of(Names names, const std::string& loss) {
  return std::ranges::find(names, loss) != names.end();
}

/// For a loss that is not built in, only the kind of its targets is known.
Activation activation_of(const std::string& loss, spec::Targets targets) {
  if (loss == "bce_with_logits") return Activation::sigmoid;
  if (loss == "focal" && targets == spec::Targets::numbers) return Activation::sigmoid;
  if (is_one_of(kSoftmaxLosses, loss)) return Activation::softmax;
  if (is_one_of(kPlainLosses, loss)) return Activation::none;
  return targets == spec::Targets::numbers ? Activation::none : Activation::softmax;
}

void softmax(std::span<const float> logits, std::vector<float>& out) {
  const double most = logits[largest(logits)];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  for (const float logit : logits)
    out.push_back(static_cast<float>(std::exp(static_cast<double>(logit) - most) / sum));
}

template <class E>
E parse_name(const char* what, const std::string& name) {
  const auto found = enum_called<E>(name);
  ENSURE(config, found.has_value(), "{} must be one of {}, got '{}'", what,
         fmt::join(enum_names(E()), ", "), printable(name));
  return *found;
}

Format format_for(const PredictionRequest& request) {
  if (!request.format.empty()) {
    const auto format = parse_name<Format>("--format", request.format);
    ENSURE(config, format != Format::png,
           "--format png is for models that predict the classes of pixels\nhint: use csv, npy or "
           "jsonl");
    return format;
  }
  const std::string extension = request.file.extension().string();
  ENSURE(
      config, extension == ".csv" || extension == ".npy" || extension == ".jsonl",
      "--out must end with .csv, .npy or .jsonl, got '{}'\nhint: rename the file, or add --format",
      printable(request.file.string()));
  return parse_name<Format>("--format", extension.substr(1));
}

std::vector<Output> default_outputs(const OutputMeaning& meaning, Format format) {
  if (meaning.activation == Activation::none)
    return {meaning.one_class ? Output::classes : Output::prediction};
  if (!meaning.one_class || format == Format::npy) return {Output::probabilities};
  return {Output::classes, Output::probabilities};
}

void check_output(Output output, const OutputMeaning& meaning) {
  if (output == Output::probabilities) {
    ENSURE(config, meaning.activation != Activation::none,
           "--outputs probabilities is not defined for this loss\nhint: use {}",
           meaning.one_class ? "class or logits" : "prediction");
  } else if (output == Output::classes) {
    ENSURE(config, meaning.one_class, "--outputs class needs one class per sample, but {}",
           meaning.activation == Activation::none
               ? "the model predicts numbers\nhint: use prediction"
               : "with this loss a sample can have any number of classes\nhint: use probabilities");
  } else if (output == Output::prediction) {
    ENSURE(config, meaning.activation == Activation::none && !meaning.one_class,
           "--outputs prediction is only for models that predict numbers\n"
           "hint: use class, probabilities or logits");
  }
}

enum class Existing { kept, replaced };

void check_replaceable(const fs::path& file, Existing existing) {
  if (!path_exists(file)) return;
  const std::string shown = printable(file.string());
  ENSURE(
      config, is_file(file),
      "--out '{}' exists and is not a regular file, so it cannot be replaced\nhint: choose another "
      "--out",
      shown);
  ENSURE(config, existing == Existing::replaced,
         "{} already exists\nhint: choose another --out, or replace it with --force", shown);
}

void check_parent(const fs::path& out) {
  ENSURE(config, is_folder(fs::absolute(out).parent_path()), "the folder of {} does not exist",
         printable(out.string()));
}

void check_file(const PredictionRequest& request) {
  check_parent(request.file);
  ENSURE(config, !is_folder(request.file), "--out must name a file, but {} is a folder",
         printable(request.file.string()));
  check_replaceable(request.file, request.replaces ? Existing::replaced : Existing::kept);
}

/// Buffers text and writes it to the file in blocks of one mebibyte.
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

static_assert(std::endian::native == std::endian::little, "an NPY file of '<f4' is little-endian");

void add_names(std::vector<std::string>& names, const std::string& stem, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    names.push_back(count == 1 ? stem : fmt::format("{}_{}", stem, i));
}

/// Returns the name of a class, or its number if it has no name.
std::string class_text(const PredictionPlan& plan, std::int64_t number) {
  const bool has_name = number >= 0 && std::cmp_less(number, plan.class_names.size());
  return has_name ? plan.class_names[static_cast<std::size_t>(number)] : std::to_string(number);
}

void add_output_names(std::vector<std::string>& names, const std::string& stem,
                      const PredictionPlan& plan, std::int64_t count) {
  if (plan.class_names.empty()) return add_names(names, stem, count);
  for (const std::string& name : plan.class_names) names.push_back(stem + "_" + name);
}

/// Returns whether targets are class labels; otherwise they are numbers, or there are none.
bool has_label(const events::Evaluated& evaluated) {
  return evaluated.labeled && evaluated.target_numbers == 0;
}

std::string csv_head(const PredictionPlan& plan, const events::Evaluated& evaluated) {
  std::vector<std::string> names{"index"};
  if (evaluated.named) names.emplace_back("name");
  if (has_label(evaluated)) names.emplace_back("label");
  if (evaluated.labeled) add_names(names, "target", evaluated.target_numbers);
  for (const Output output : plan.outputs) {
    if (output == Output::classes) {
      names.emplace_back("class");
      if (plan.meaning.activation != Activation::none) names.emplace_back("class_prob");
    } else if (output == Output::probabilities) {
      add_output_names(names, "prob", plan, evaluated.outputs);
    } else if (output == Output::logits) {
      add_output_names(names, "logit", plan, evaluated.outputs);
    } else {
      add_names(names, "prediction", evaluated.outputs);
    }
  }
  return report::csv_line(names) + '\n';
}

struct Outputs {
  const SampleRow& row;
  std::vector<float> probabilities;

  /// Returns the values of a numeric output.
  [[nodiscard]] std::span<const float> values(Output output) const {
    return output == Output::probabilities ? probabilities : row.logits;
  }
};

Outputs outputs_of(const PredictionPlan& plan, const SampleRow& row) {
  const bool has_activation = plan.meaning.activation != Activation::none;
  const bool has_class_column = plan.has(Output::classes) && plan.format != Format::npy;
  if (!has_activation || (!has_class_column && !plan.has(Output::probabilities))) return {row, {}};
  return {row, probabilities(row.logits, plan.meaning.activation)};
}

/// NaN is written without a sign.
std::string number(float value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

void csv_row(std::string& text, const PredictionPlan& plan, const events::Evaluated& evaluated,
             const Outputs& outputs) {
  const SampleRow& row = outputs.row;
  text += std::to_string(row.index);
  if (evaluated.named) text += "," + report::csv_cell(row.name);
  if (has_label(evaluated)) text += "," + report::csv_cell(class_text(plan, row.label));
  for (const float target : row.targets) text += "," + number(target);
  for (const Output output : plan.outputs) {
    if (output == Output::classes) {
      const std::size_t found = largest(row.logits);
      text += "," + report::csv_cell(class_text(plan, static_cast<std::int64_t>(found)));
      if (plan.meaning.activation != Activation::none)
        text += "," + number(outputs.probabilities[found]);
      continue;
    }
    for (const float value : outputs.values(output)) text += "," + number(value);
  }
  text += '\n';
}

std::string json_number(float value) {
  return std::isfinite(value) ? number(value) : '"' + number(value) + '"';
}

std::string json_list(std::span<const float> values) {
  std::string text;
  for (const float value : values) text += (text.empty() ? "" : ",") + json_number(value);
  return '[' + text + ']';
}

std::string json_class(const PredictionPlan& plan, std::int64_t number) {
  return plan.class_names.empty() ? std::to_string(number)
                                  : to_line(Json(class_text(plan, number)));
}

std::string json_outputs(const PredictionPlan& plan, std::span<const float> values) {
  if (plan.class_names.size() != values.size()) return json_list(values);
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (text.empty() ? "" : ",") + to_line(Json(plan.class_names[i])) + ':' +
            json_number(values[i]);
  return '{' + text + '}';
}

// The JSON is written by hand, because a JSON library converts a float to double and writes 17
// digits.
void json_row(std::string& text, const PredictionPlan& plan, const events::Evaluated& evaluated,
              const Outputs& outputs) {
  const SampleRow& row = outputs.row;
  text += fmt::format(R"({{"index":{})", row.index);
  if (evaluated.named) text += R"(,"name":)" + to_line(Json(row.name));
  if (has_label(evaluated)) text += R"(,"label":)" + json_class(plan, row.label);
  if (evaluated.labeled && evaluated.target_numbers > 0)
    text += R"(,"target":)" + json_list(row.targets);
  for (const Output output : plan.outputs) {
    if (output == Output::classes) {
      const std::size_t found = largest(row.logits);
      text += R"(,"class":)" + json_class(plan, static_cast<std::int64_t>(found));
      if (plan.meaning.activation != Activation::none)
        text += R"(,"class_prob":)" + json_number(outputs.probabilities[found]);
      continue;
    }
    text +=
        fmt::format(R"(,"{}":)", enum_name(output)) + json_outputs(plan, outputs.values(output));
  }
  text += "}\n";
}

template <class T>
void append_bytes(std::string& text, std::span<const T> values) {
  text.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

void npy_row(std::string& text, const PredictionPlan& plan, const Outputs& outputs) {
  if (plan.has(Output::classes)) {
    const auto found = static_cast<std::int64_t>(largest(outputs.row.logits));
    append_bytes(text, std::span(&found, 1));
  } else {
    append_bytes(text, outputs.values(plan.outputs.front()));
  }
}

}  // namespace

std::int64_t rows_of_rank(std::int64_t samples, int rank, int world_size) {
  return samples <= rank ? 0 : (samples - rank + world_size - 1) / world_size;
}

PredictionParts::PredictionParts(const fs::path& run_dir, int world_size,
                                 const events::Evaluated& evaluated)
    : evaluated_(evaluated) {
  const auto logit_bytes = static_cast<std::uint64_t>(evaluated.outputs) * sizeof(float);
  for (int rank = 0; rank < world_size; ++rank) {
    const std::int64_t rows = rows_of_rank(evaluated.samples, rank, world_size);
    Part part;
    part.logits = open_rows(spec::part_file(run_dir, "logits", rank), rows, logit_bytes);
    if (evaluated.labeled) {
      const fs::path targets = spec::part_file(run_dir, "targets", rank);
      part.targets =
          open_rows(targets, rows,
                    evaluated.target_numbers == 0
                        ? sizeof(std::int64_t)
                        : static_cast<std::uint64_t>(evaluated.target_numbers) * sizeof(float));
    }
    if (evaluated.named) part.names = open_part(spec::part_file(run_dir, "names", rank));
    parts_.push_back(std::move(part));
  }
}

void PredictionParts::read_target(std::ifstream& file, SampleRow& row) const {
  if (evaluated_.target_numbers == 0) {
    read_row(file, std::span(&row.label, 1));
  } else {
    row.targets.resize(static_cast<std::size_t>(evaluated_.target_numbers));
    read_row(file, std::span(row.targets));
  }
}

bool PredictionParts::next(SampleRow& row) {
  if (next_ == evaluated_.samples) return false;
  Part& part = parts_[static_cast<std::size_t>(next_) % parts_.size()];
  row.index = next_++;
  row.logits.resize(static_cast<std::size_t>(evaluated_.outputs));
  read_row(part.logits, std::span(row.logits));
  if (evaluated_.labeled) read_target(part.targets, row);
  if (evaluated_.named) row.name = read_name(part.names);
  return true;
}

OutputMeaning meaning_of(const config::Stage& loss, spec::Targets targets) {
  const Activation activation = activation_of(loss.type, targets);
  return {activation, activation == Activation::softmax || targets == spec::Targets::classes};
}

std::vector<float> probabilities(std::span<const float> logits, Activation activation) {
  std::vector<float> out;
  out.reserve(logits.size());
  if (activation == Activation::softmax && !logits.empty()) {
    softmax(logits, out);
  } else {
    for (const float logit : logits)
      out.push_back(static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logit)))));
  }
  return out;
}

std::size_t largest(std::span<const float> logits) {
  const auto below = [](float a, float b) { return !std::isnan(a) && (std::isnan(b) || a < b); };
  return static_cast<std::size_t>(std::ranges::max_element(logits, below) - logits.begin());
}

bool PredictionPlan::has(Output output) const {
  return std::ranges::find(outputs, output) != outputs.end();
}

PredictionPlan plan_predictions(const PredictionRequest& request, const OutputMeaning& meaning) {
  check_file(request);
  PredictionPlan plan{request.file, format_for(request), {}, meaning, request.replaces};
  for (const std::string& name : request.outputs) {
    const auto output = parse_name<Output>("--outputs", name);
    check_output(output, meaning);
    ENSURE(config, !plan.has(output), "--outputs names {} twice", name);
    plan.outputs.push_back(output);
  }
  if (plan.outputs.empty()) plan.outputs = default_outputs(meaning, plan.format);
  ENSURE(config, plan.format != Format::npy || plan.outputs.size() == 1,
         "an NPY file holds one array, but --outputs names {} outputs\n"
         "hint: name only one of them, or choose another --format",
         plan.outputs.size());
  return plan;
}

PredictionPlan plan_masks(const PredictionRequest& request) {
  const fs::path& out = request.file;
  const std::string shown = printable(out.string());
  const std::string extension = out.extension().string();
  const bool is_file = !extension.empty() && enum_called<Format>(extension.substr(1)).has_value();
  ENSURE(
      config, !is_file && (request.format.empty() || request.format == "png"),
      "the model predicts the classes of pixels, so --out must name a folder, which gets one PNG "
      "file for each image, got '{}'{}",
      shown, request.format.empty() ? "" : " with --format " + printable(request.format));
  ENSURE(config, request.outputs.empty() || request.outputs == std::vector<std::string>{"class"},
         "--outputs must be class for a model that predicts the classes of pixels, got {}",
         printable(fmt::format("{}", fmt::join(request.outputs, ","))));
  PredictionPlan plan{
      out.has_filename() ? out : out.parent_path(), Format::png, {Output::classes}, {}};
  check_parent(plan.file);
  ENSURE(config, fs::symlink_status(plan.file).type() == fs::file_type::not_found,
         "--out '{}' already exists\nhint: choose a new folder (--force replaces only files)",
         shown);
  return plan;
}

void move_masks(const fs::path& run_dir, const PredictionPlan& plan) {
  std::error_code failure;
  fs::rename(run_dir / spec::kMaskFolder, plan.file, failure);
  ENSURE(resource, !failure, "cannot move the masks to {}: {}", printable(plan.file.string()),
         failure.message());
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
         "the predictions for {} need {}, but {} are free\n"
         "hint: free disk space or choose another --out",
         printable(file.string()), human_bytes(bytes), human_bytes(space.available));
}

void write_predictions(const RankParts& left, const PredictionPlan& plan,
                       const StopCheck& check_stop) {
  const events::Evaluated& evaluated = left.evaluated;
  PredictionParts parts(left.run_dir, left.world_size, evaluated);
  check_room(plan.file, known_bytes(plan, evaluated.samples, evaluated.outputs));
  const fs::path file = fs::absolute(plan.file);
  write_atomically(file, [&](int fd) {
    Buffer buffer(fd, file.string());
    buffer.text() = head_of(plan, evaluated);
    SampleRow row;
    while (parts.next(row)) {
      append_row(buffer.text(), plan, evaluated, row);
      if (!buffer.is_full()) continue;
      buffer.flush();
      check_stop();
    }
    buffer.flush();
    check_stop();
    check_replaceable(file, plan.replaces ? Existing::replaced : Existing::kept);
  });
}

std::string npy_header(const PredictionPlan& plan, std::int64_t samples, std::int64_t outputs) {
  constexpr std::size_t kBefore = 10;  // magic, version, length
  constexpr std::size_t kAlignment = 64;
  const bool classes = plan.has(Output::classes);
  std::string text = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", classes ? "<i8" : "<f4",
      classes ? fmt::format("({},)", samples) : fmt::format("({}, {})", samples, outputs));
  const std::size_t used = (kBefore + text.size() + 1) % kAlignment;
  text.append((kAlignment - used) % kAlignment, ' ');
  text += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(text.size() & 0xff);
  head += static_cast<char>(text.size() >> 8);
  return head + text;
}

std::string head_of(const PredictionPlan& plan, const events::Evaluated& evaluated) {
  if (plan.format == Format::npy) return npy_header(plan, evaluated.samples, evaluated.outputs);
  return plan.format == Format::csv ? csv_head(plan, evaluated) : std::string();
}

void append_row(std::string& text, const PredictionPlan& plan, const events::Evaluated& evaluated,
                const SampleRow& row) {
  const Outputs outputs = outputs_of(plan, row);
  if (plan.format == Format::npy) {
    npy_row(text, plan, outputs);
  } else if (plan.format == Format::csv) {
    csv_row(text, plan, evaluated, outputs);
  } else {
    json_row(text, plan, evaluated, outputs);
  }
}

}  // namespace trainctl::study
