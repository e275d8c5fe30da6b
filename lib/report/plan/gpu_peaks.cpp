#include "report/plan/gpu_peaks.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

namespace trainctl::report {
namespace {

/// In TFLOP/s with float32 sums, without sparsity (data sheets name twice as much with it); 0: the
/// GPU does not compute so.
struct Peak {
  std::array<std::string_view, 2> words;  // of the name that the driver gives
  double bf16 = 0;
  double fp16 = 0;
  double tf32 = 0;
};

// NVIDIA's data sheets of the products; of the GeForce cards the white papers of their
// architectures (Ada, Ampere GA102). The narrower name stands first.
constexpr std::array kPeaks{
    Peak{{"H200", "NVL"}, 835.5, 835.5, 417.5},
    Peak{{"H200", ""}, 989.5, 989.5, 494.7},
    Peak{{"H100", "PCIe"}, 756.5, 756.5, 378},
    Peak{{"H100", "NVL"}, 835.5, 835.5, 417.5},
    Peak{{"H100", ""}, 989.5, 989.5, 494.7},
    Peak{{"A100", ""}, 312, 312, 156},
    Peak{{"L40S", ""}, 362, 362, 183},
    Peak{{"L4", ""}, 121, 121, 60},
    Peak{{"T4", ""}, 0, 65, 0},
    Peak{{"RTX", "4090"}, 165.2, 165.2, 82.6},
    Peak{{"RTX", "3090"}, 71, 71, 35.6},
};

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return word.empty() || std::ranges::find(words, word) != words.end();
}

double of_precision(const Peak& peak, std::string_view precision) {
  if (precision == "bf16-mixed") return peak.bf16;
  if (precision == "16-mixed") return peak.fp16;
  return precision == "tf32" ? peak.tf32 : 0;
}

}  // namespace

std::optional<double> peak_flops(std::string_view device, std::string_view precision) {
  const std::vector<std::string> words = words_of(device);
  // A slice of a GPU, a narrower chip under the same name, another one ("3090 Ti").
  for (const char* other : {"MIG", "Laptop", "Ti", "D", "Max"}) {
    if (has(words, other)) return std::nullopt;
  }
  for (const Peak& peak : kPeaks) {
    if (!has(words, peak.words[0]) || !has(words, peak.words[1])) continue;
    const double tera = of_precision(peak, precision);
    return tera > 0 ? std::optional(tera * 1e12) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace trainctl::report
