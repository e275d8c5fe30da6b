#include "data/formats/file_reader.hpp"

#include "data/fakes.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <sys/resource.h>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

/// Returns the error of `body` when no more files can be opened.
std::string failure_without_descriptors(const std::function<void()>& body) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_NOFILE, &none);
  std::string failure = failure_of(body);
  ::setrlimit(RLIMIT_NOFILE, &before);
  return failure;
}

}  // namespace

TEST_CASE("FileReader: too many open files is a resource error, not a data error") {
  const TempFolder folder;
  put_text(folder / "a.jpg", "one");
  const DataRoot refusing(folder.path());
  const DataRoot following(folder.path(), DataRoot::Links::follow);
  for (const auto& open : std::vector<std::function<void()>>{
           [&] { (void)FileReader(folder / "a.jpg"); }, [&] { (void)refusing.open("a.jpg"); },
           [&] { (void)following.open("a.jpg"); }}) {
    CHECK_THAT(
        failure_without_descriptors(open),
        StartsWith("11: cannot read ") && EndsWith("a.jpg: Too many open files\nhint: raise the "
                                                   "limit of open files (ulimit -n)"));
    CHECK(failure_of(open).empty());
  }
  CHECK_THAT(failure_without_descriptors([&] { DataRoot another(folder.path()); }),
             StartsWith("11: cannot read the folder "));
  CHECK_THAT(failure_of([&] { (void)refusing.open("b.jpg"); }), StartsWith("9: cannot read "));
}
