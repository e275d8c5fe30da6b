#include "spec/model/torchscript.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <cctype>

namespace trainctl::spec::model {

std::string Torchscript::read() const {
  constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 30;
  std::string bytes = read_file(path, kMostBytes, ReadFailure::config);
  const std::string found = to_hex(trainctl::sha256(bytes));
  ENSURE(config, sha256,
         "{} is code that this run would execute, and it is not pinned: if you trust the file, add "
         "'sha256: {}'",
         printable(path.string()), found);
  std::string pinned = *sha256;
  std::ranges::transform(pinned, pinned.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  ENSURE(config, pinned == found,
         "{} has the SHA-256 {}, but 'sha256' says {}: if you trust the file as it is now, write "
         "the former",
         printable(path.string()), found, printable(*sha256));
  return bytes;
}

}  // namespace trainctl::spec::model
