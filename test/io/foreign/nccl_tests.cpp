#include "trainyard/io/foreign/nccl_tests.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/refusal.hpp"
#include "support/support.hpp"

using namespace trainyard;
using test::contains;

namespace {

const std::string kRanks =
    "# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 graph: 0\n"
    "#\n# Using devices\n"
    "#  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3\n"
    "worker-1:1887:1887 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
    "#  Rank  1 Group  0 Pid   1885 on   worker-0 device  0 [0x8d] NVIDIA H100 80GB HBM3\n#\n";
const std::string kHeader =
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";
const std::string kEnd = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 6.6972\n#\n";

std::string nccl_row(const std::string& figures, const std::string& operation = "sum") {
  return "     1000000        250000     float     " + operation + "      -1   " + figures +
         "      0    90.0   11.11   11.11      0\n";
}

std::string refused_log(const std::string& text, std::optional<CollectiveKind> kind = std::nullopt) {
  return test::refusal_text([&] { parse_nccl_tests(text, "nccl.log", kind); });
}
}  // namespace

TEST_CASE("a log of all_reduce_perf is a table of times, with its ranks and nodes") {
  const std::string text = kRanks + kHeader +
                           "           0             0     float     sum      -1     5.70    0.00    0.00      0     "
                           "5.54    0.00    0.00      0\n" +
                           nccl_row("100.0   10.00   10.00") + "worker-1:1887:1887 [0] NCCL INFO x\n" +
                           nccl_row("104.0    9.62    9.62") + nccl_row("300.0    3.33    3.33") +
                           "  1000000000     250000000     float     sum      -1  50000.0   20.00   20.00    N/A  "
                           "50000.0   20.00   20.00    N/A\n" +
                           kEnd;
  CHECK(is_nccl_tests(text));
  const NcclTestsLog log = parse_nccl_tests(text, "nccl.log");
  CHECK(log.gpu == "NVIDIA H100 80GB HBM3");
  CHECK(log.table.kind == CollectiveKind::all_reduce);
  CHECK(log.table.ranks == 2);
  CHECK(log.table.nodes == 2);
  // With 2 x 1/2 the bus bandwidth equals the algorithm's. A size run three times gets the median; a row that sends
  // nothing is dropped.
  CHECK(log.table.points == std::vector<CollectivePoint>{{Bytes{1'000'000}, Nanoseconds{104'000}},
                                                         {Bytes{1'000'000'000}, Nanoseconds{50'000'000}}});
}

TEST_CASE("a GPU's name in a log is text: bytes that are no characters, and a line's end of Windows, are not of it") {
  std::string text = kRanks + kHeader + nccl_row("100.0   10.00   10.00") + kEnd;
  text.replace(text.find("HBM3\n"), 5, "\x95 M3 \r\n");
  CHECK(parse_nccl_tests(text, "nccl.log").gpu == "NVIDIA H100 80GB ? M3");
}

TEST_CASE("the collective is that of bus bandwidth over bandwidth, or the program's, or the user's word") {
  const auto kind = [](const std::string& text, std::optional<CollectiveKind> given = std::nullopt) {
    return parse_nccl_tests(text, "nccl.log", given).table.kind;
  };
  // With two ranks the bus bandwidth is 1 x the algorithm's for an all-reduce and 1/2 x for the other collectives.
  CHECK(kind(kRanks + kHeader + nccl_row("100.0   10.00    5.00") + kEnd) == CollectiveKind::reduce_scatter);
  const std::string none = kHeader + nccl_row("100.0   10.00    5.00", "none") + kEnd;
  CHECK(kind("# Collective test starting: alltoall_perf\n" + kRanks + none) == CollectiveKind::all_to_all);
  CHECK(kind("$ mpirun ./build/all_gather_perf -b 8\n" + kRanks + none) == CollectiveKind::all_gather);
  CHECK(kind(kRanks + none, CollectiveKind::all_gather) == CollectiveKind::all_gather);
  CHECK(contains(refused_log(kRanks + none), "does not say which collective"));
  CHECK(contains(refused_log(kRanks + kHeader + nccl_row("100.0   10.00   10.00") + kEnd, CollectiveKind::all_to_all),
                 "measures all-reduce, not all-to-all"));
  CHECK(contains(refused_log("# Collective test starting: sendrecv_perf\n" + kRanks + none),
                 "sendrecv_perf does not measure"));
}

TEST_CASE("old headers without a root's column are read by their words") {
  const std::string text =
      kRanks +
      "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
      "     1000000        250000     float     sum    100.0   10.00   10.00  2e-07     90.0   11.11   11.11  2e-07\n" +
      kEnd;
  CHECK(parse_nccl_tests(text, "old.log").table.points.front().time == Nanoseconds{100'000});
}

TEST_CASE("logs that are wrong or cut short are refused by line") {
  const std::string good = nccl_row("100.0   10.00   10.00");
  const std::string head = kRanks + kHeader;
  CHECK(contains(refused_log(head + good), "cut short"));
  CHECK(contains(refused_log(head + good + "     1000000        250000     float     sum\n" + kEnd),
                 "nccl.log:12:6: error[nccl-tests]: columns in this row: 4, in the header: 13"));
  CHECK(contains(refused_log(head + kEnd), "no size in the log has a time"));
  CHECK(contains(refused_log(kHeader + good + kEnd), "0 lines \"# Rank\""));
  CHECK(contains(refused_log(kRanks + good + kEnd), "no header"));
  CHECK(contains(refused_log(kRanks + kRanks + kHeader + good + kEnd), "rank 0 is listed twice"));
  CHECK(contains(refused_log(head + nccl_row("fast   10.00   10.00") + kEnd), "'fast' is not a number"));
  CHECK(contains(refused_log(head + nccl_row("0.00   15.59   15.59") + kEnd), "in a time of 0 cannot be 15.59 GB/s"));
  CHECK(contains(refused_log(head + nccl_row("100.0   20.00   20.00") + kEnd), "are 10.00 GB/s, not 20"));
  CHECK(contains(refused_log(head + nccl_row("100.0   10.00   17.50") + kEnd),
                 "does not fit 10 GB/s for all-reduce with 2 ranks"));
  std::string wrong = good;
  wrong.replace(wrong.find("      0    90.0"), 15, "      7    90.0");
  CHECK(contains(refused_log(head + wrong + kEnd), "found 7 wrong values"));
  CHECK(contains(refused_log(""), "no header"));
  CHECK_FALSE(is_nccl_tests("{\"nvbandwidth\": {}}"));
}
