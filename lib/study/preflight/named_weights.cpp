#include "study/preflight/named_weights.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/machine/environment.hpp"
#include "base/strings.hpp"
#include "data/formats/cache_file.hpp"
#include "log/log.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace trainctl::study {
namespace {

constexpr std::string_view kTorchvision = "torchvision/";
constexpr const char* kPyTorchServer = "https://download.pytorch.org/models";
constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 30;
constexpr double kDownload_s = 3600;

/// The names of torchvision 0.26 (its classes of weights without the suffix _Weights) for the
/// models that exist here.
constexpr std::array kWeights{
    NamedWeights{"resnet18.IMAGENET1K_V1", "resnet18-f37072fd.pth"},
    NamedWeights{"resnet34.IMAGENET1K_V1", "resnet34-b627a593.pth"},
    NamedWeights{"resnet50.IMAGENET1K_V1", "resnet50-0676ba61.pth"},
    NamedWeights{"resnet50.IMAGENET1K_V2", "resnet50-11ad3fa6.pth"},
    NamedWeights{"resnet101.IMAGENET1K_V1", "resnet101-63fe2227.pth"},
    NamedWeights{"resnet101.IMAGENET1K_V2", "resnet101-cd907fc2.pth"},
    NamedWeights{"resnet152.IMAGENET1K_V1", "resnet152-394f9c45.pth"},
    NamedWeights{"resnet152.IMAGENET1K_V2", "resnet152-f82ba261.pth"},
    NamedWeights{"mobilenet_v2.IMAGENET1K_V1", "mobilenet_v2-b0353104.pth"},
    NamedWeights{"mobilenet_v2.IMAGENET1K_V2", "mobilenet_v2-7ebf99e0.pth"},
    NamedWeights{"mobilenet_v3_small.IMAGENET1K_V1", "mobilenet_v3_small-047dcff4.pth"},
    NamedWeights{"mobilenet_v3_large.IMAGENET1K_V1", "mobilenet_v3_large-8738ca79.pth"},
    NamedWeights{"mobilenet_v3_large.IMAGENET1K_V2", "mobilenet_v3_large-5c1a4163.pth"},
    NamedWeights{"efficientnet_b0.IMAGENET1K_V1", "efficientnet_b0_rwightman-7f5810bc.pth"},
    NamedWeights{"efficientnet_b1.IMAGENET1K_V1", "efficientnet_b1_rwightman-bac287d4.pth"},
    NamedWeights{"efficientnet_b1.IMAGENET1K_V2", "efficientnet_b1-c27df63c.pth"},
    NamedWeights{"efficientnet_b2.IMAGENET1K_V1", "efficientnet_b2_rwightman-c35c1473.pth"},
    NamedWeights{"efficientnet_b3.IMAGENET1K_V1", "efficientnet_b3_rwightman-b3899882.pth"},
    NamedWeights{"efficientnet_b4.IMAGENET1K_V1", "efficientnet_b4_rwightman-23ab8bcd.pth"},
    NamedWeights{"vit_b_16.IMAGENET1K_V1", "vit_b_16-c867db91.pth"},
    NamedWeights{"convnext_tiny.IMAGENET1K_V1", "convnext_tiny-983f1562.pth"},
};

/// Returns the digits before the ending of the file name.
std::string_view digits_of(const NamedWeights& weights) {
  const std::size_t dash = weights.file.rfind('-');
  return weights.file.substr(dash + 1, weights.file.rfind('.') - dash - 1);
}

bool has_hash_of(const NamedWeights& weights, std::string_view bytes) {
  return to_hex(sha256(bytes)).starts_with(digits_of(weights));
}

}  // namespace

bool is_weights_name(const fs::path& path) { return path.string().starts_with(kTorchvision); }

const NamedWeights& weights_called(const fs::path& path) {
  const std::string name = path.string().substr(kTorchvision.size());
  const auto* found = std::ranges::find(kWeights, name, &NamedWeights::name);
  if (found != kWeights.end()) return *found;
  std::vector<std::string> names;
  for (const NamedWeights& known : kWeights) names.emplace_back(known.name);
  const auto near = nearest(name, names);
  throw Error(ErrorKind::config,
              fmt::format("torchvision has no weights '{}' for a model of trainctl\nhint: {}",
                          printable(name),
                          near ? fmt::format("use 'torchvision/{}'", *near)
                               : "the names are " + join(names, ", ")));
}

WeightsSource weights_source() {
  const std::string url = environment_value("TRAINCTL_WEIGHTS_URL");
  const fs::path cache = data::cache_root();
  ENSURE(config, !cache.empty(),
         "weights of torchvision need a cache folder, but neither HOME nor XDG_CACHE_HOME is set\n"
         "hint: set one of them, or name a file in 'weights'");
  return {url.empty() ? kPyTorchServer : url, cache / "weights"};
}

fs::path kept_weights(const NamedWeights& weights, const WeightsSource& source) {
  const fs::path file = source.folder / weights.file;
  if (!is_file(file)) return {};
  return has_hash_of(weights, read_file(file, kLargestFile, ReadFailure::resource)) ? file
                                                                                    : fs::path();
}

fs::path fetch_weights(const NamedWeights& weights, const WeightsSource& source) {
  if (fs::path kept = kept_weights(weights, source); !kept.empty()) return kept;
  const std::string url = fmt::format("{}/{}", source.url, weights.file);
  log::get().info("downloading {}", printable(url));
  const data::HttpResponse response = source.client()->perform(
      {.url = url, .timeout_s = kDownload_s, .max_body_bytes = kLargestFile});
  const std::string cause = !response.failure.empty() ? response.failure
                            : response.status == 200
                                ? ""
                                : fmt::format("the server answers with status {}", response.status);
  const fs::path file = source.folder / weights.file;
  ENSURE(
      resource, cause.empty(),
      "cannot download {}: {}\nhint: without a network, copy the file from another machine to {}",
      printable(url), printable(cause), printable(file.string()));
  ENSURE(checkpoint, has_hash_of(weights, response.body),
         "the file from {} has the SHA-256 {}, but its name says that it begins with {}\nhint: the "
         "server or a proxy sends another file: check TRAINCTL_WEIGHTS_URL",
         printable(url), to_hex(sha256(response.body)), digits_of(weights));
  make_folder(source.folder);
  write_atomically(file, response.body);
  return file;
}

fs::path local_weights(const fs::path& path) {
  return is_weights_name(path) ? fetch_weights(weights_called(path), weights_source()) : path;
}

}  // namespace trainctl::study
