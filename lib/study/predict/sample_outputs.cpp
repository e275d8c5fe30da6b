#include "study/predict/sample_outputs.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "spec/experiment/task.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
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
  const Json name = Json::parse(line, nullptr, /*allow_exceptions=*/false);
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

}  // namespace trainctl::study
