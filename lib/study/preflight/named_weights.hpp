#pragma once

#include "base/files.hpp"
#include "data/remote/http_client.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace trainctl::study {

/// Weights of torchvision that a config names, such as torchvision/resnet18.IMAGENET1K_V1.
struct NamedWeights {
  std::string_view name;  // "resnet18.IMAGENET1K_V1"
  std::string_view file;  // "resnet18-f37072fd.pth", with the first digits of its SHA-256
};

/// Returns whether `weights.path` names weights instead of a file.
bool is_weights_name(const fs::path& path);
/// Returns the weights of this name. Throws Error(config) that suggests the nearest name.
const NamedWeights& weights_called(const fs::path& path);

/// Where files are downloaded from and kept.
struct WeightsSource {
  std::string url;  // without the file name; absent in the environment: PyTorch's server
  fs::path folder;
  std::function<std::unique_ptr<data::HttpClient>()> client = data::curl_client;
};
/// Returns the source that TRAINCTL_WEIGHTS_URL and the cache folder determine. Throws
/// Error(config) without a cache folder.
WeightsSource weights_source();

/// Returns the file in the folder if its SHA-256 fits its name; empty if it must be downloaded.
fs::path kept_weights(const NamedWeights& weights, const WeightsSource& source);
/// Returns the file, which is downloaded if it is not kept. Throws Error(resource) if the server
/// does not send it, Error(checkpoint) if it sends another file.
fs::path fetch_weights(const NamedWeights& weights, const WeightsSource& source);
/// Returns the path itself, or the file of the weights that it names.
fs::path local_weights(const fs::path& path);

}  // namespace trainctl::study
