#include "report/text/run_summary.hpp"
#include "support/catch.hpp"

using trainctl::report::top_operator;

namespace {

const char* const kHeader = "operator,device,shapes,calls,self_ms,total_ms,gflop,mb\n";

std::string top(const std::string& rows) { return top_operator(kHeader + rows); }

}  // namespace

TEST_CASE("profile summary: names the operator with the most self time over all shapes") {
  CHECK(top("aten::addmm,cpu,\"[128, 784] [784]\",4,3,9,1,0\n"
            "aten::relu,cpu,,4,4,4,0,0\n"
            "aten::addmm,cpu,\"[1]\",4,3,9,1,0\n") ==
        "aten::addmm takes 60 % of the time of all operators");
}

TEST_CASE("profile summary: kernels of a GPU precede operators") {
  CHECK(top("aten::mm,cpu,,4,90,90,1,0\n\"void gemm<int, 4>\",gpu,,4,2,2,0,0\n") ==
        "void gemm<int, 4> takes 100 % of the time of all kernels");
}

TEST_CASE("profile summary: an empty or invalid table names no operator") {
  CHECK(top("").empty());
  CHECK(top_operator("").empty());
  CHECK(top("garbage\n,,,,\n").empty());
  CHECK(top("aten::mm,cpu,,4,nan,90,1,0\n").empty());
  CHECK(top("\"open,cpu,,4,1,1,1,0\n") ==
        "open,cpu,,4,1,1,1,0 takes 100 % of the time of all operators");
}
