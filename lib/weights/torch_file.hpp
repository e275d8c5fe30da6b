#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::weights {

/// One tensor of a state dict: a window on a storage, which others may share.
struct TorchTensor {
  std::string_view name;
  std::string_view dtype;  // in the words of safetensors: "F32"
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements, like the offset
  std::int64_t offset = 0;
  std::span<const std::byte> storage;
};

struct TorchFile {
  std::vector<TorchTensor> tensors;
  std::vector<std::string> notes;  // "its 'state_dict' was taken, ..."
};

enum class Verify { structure, checksums };

/// The state dict of a file of torch.save (1.6 and later): a ZIP archive of a pickle and the
/// storages. It is the dict under the key `section`; without one, the file itself or what is under
/// 'state_dict', 'model' and the like. Every window lies within
/// its storage, and all of them together are bounded by the file's size. Throws Error(checkpoint);
/// the views point into `file`.
TorchFile read_torch_file(std::span<const std::byte> file, Verify verify,
                          const std::string& section = {});

/// The elements row by row: those of the storage where they lie so, else laid out in `copy`.
std::span<const std::byte> row_major(const TorchTensor& tensor, std::vector<std::byte>& copy);

}  // namespace trainctl::weights
