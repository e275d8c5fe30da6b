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
  ENSURE(resource, file.good(), "cannot read {}, which a rank has written", path.string());
  return file;
}

std::ifstream open_rows(const fs::path& path, std::int64_t rows, std::uint64_t row_bytes) {
  std::error_code failure;
  const std::uint64_t found = fs::file_size(path, failure);
  const std::uint64_t expected = static_cast<std::uint64_t>(rows) * row_bytes;
  ENSURE(resource, !failure && found == expected,
         "{} should hold {} rows of {} bytes, but it has {} bytes: was the folder changed?",
         path.string(), rows, row_bytes, failure ? 0 : found);
  return open_part(path);
}

template <class T>
void read_row(std::ifstream& file, std::span<T> values) {
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size_bytes()));
  ENSURE(resource, file.good(), "cannot read what a rank has written");
}

std::string read_name(std::ifstream& file) {
  std::string line;
  std::getline(file, line);
  const Json name = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  ENSURE(resource, name.is_string(), "cannot read the names that a rank has written");
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
Scale scale_of(const std::string& loss, spec::Targets targets) {
  if (loss == "bce_with_logits") return Scale::sigmoid;
  if (loss == "focal" && targets == spec::Targets::numbers) return Scale::sigmoid;
  if (is_one_of(kSoftmaxLosses, loss)) return Scale::softmax;
  if (is_one_of(kPlainLosses, loss)) return Scale::none;
  return targets == spec::Targets::numbers ? Scale::none : Scale::softmax;
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
                                 const events::Evaluated& told)
    : told_(told) {
  const auto logit_bytes = static_cast<std::uint64_t>(told.outputs) * sizeof(float);
  for (int rank = 0; rank < world_size; ++rank) {
    const std::int64_t rows = rows_of_rank(told.samples, rank, world_size);
    Part part;
    part.logits = open_rows(spec::part_file(run_dir, "logits", rank), rows, logit_bytes);
    if (told.labeled) {
      const fs::path targets = spec::part_file(run_dir, "targets", rank);
      part.targets =
          open_rows(targets, rows,
                    told.target_numbers == 0
                        ? sizeof(std::int64_t)
                        : static_cast<std::uint64_t>(told.target_numbers) * sizeof(float));
    }
    if (told.named) part.names = open_part(spec::part_file(run_dir, "names", rank));
    parts_.push_back(std::move(part));
  }
}

void PredictionParts::read_target(std::ifstream& file, SampleRow& row) const {
  if (told_.target_numbers == 0) {
    read_row(file, std::span(&row.label, 1));
  } else {
    row.targets.resize(static_cast<std::size_t>(told_.target_numbers));
    read_row(file, std::span(row.targets));
  }
}

bool PredictionParts::next(SampleRow& row) {
  if (next_ == told_.samples) return false;
  Part& part = parts_[static_cast<std::size_t>(next_) % parts_.size()];
  row.index = next_++;
  row.logits.resize(static_cast<std::size_t>(told_.outputs));
  read_row(part.logits, std::span(row.logits));
  if (told_.labeled) read_target(part.targets, row);
  if (told_.named) row.name = read_name(part.names);
  return true;
}

Meaning meaning_of(const config::Stage& loss, spec::Targets targets) {
  const Scale scale = scale_of(loss.type, targets);
  return {scale, scale == Scale::softmax || targets == spec::Targets::classes};
}

std::vector<float> probabilities(std::span<const float> logits, Scale scale) {
  std::vector<float> out;
  out.reserve(logits.size());
  if (scale == Scale::softmax && !logits.empty()) {
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
