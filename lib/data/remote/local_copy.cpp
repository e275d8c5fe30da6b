#include "data/remote/local_copy.hpp"

#include "base/strings.hpp"
#include "base/url.hpp"
#include "data/remote/mount.hpp"

namespace trainctl::data {

Error with_copy_named(const Error& error, const Dataset& dataset, std::int64_t index) {
  const std::string url = dataset.fetchable()->object(index);
  if (!is_remote(url)) return error;
  const std::string copy = remote_tier()->folder().files(url).data.string();
  return {error.kind(),
          fmt::format("{}; read from {}, the local copy of {}: if that is not what is there, "
                      "delete the copy, and it is fetched anew",
                      error.what(), printable(copy), printable(url)),
          error.where()};
}

}  // namespace trainctl::data
