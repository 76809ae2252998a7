#define CBC_EXTERN_C  // exposes Cbc_Model, whose model_ accepts an event handler; the C interface has none

#include <CbcEventHandler.hpp>
#include <CbcModel.hpp>
#include <CbcSolver.hpp>
#include <CoinError.hpp>
// Must come after the headers above.
#include <Cbc_C_Interface.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/solve/columns.hpp"
#include "trainyard/solve/integer_program.hpp"

namespace trainyard {
namespace {

/// Calls `asked` at each node, cut pass and heuristic pass, and ends the search as if its time were up.
class StopHandler : public CbcEventHandler {
 public:
  explicit StopHandler(const std::function<bool()>& asked) : asked_(&asked) {}

  CbcAction event(CbcEvent) override {
    if (!(*asked_)()) return noAction;
    if (model_ != nullptr) model_->setMaximumSeconds(0);  // the model of the search, or that of a heuristic
    return stop;
  }
  CbcAction event(CbcEvent which, void*) override { return event(which); }
  CbcEventHandler* clone() const override { return new StopHandler(*this); }

 private:
  const std::function<bool()>* asked_;
};

}  // namespace

bool has_cbc() { return true; }

IntegerSolution solve_by_cbc(const IntegerProgram& program, const IntegerOptions& options) try {
  const LinearProgram& linear = program.linear;
  for (const std::uint32_t column : program.whole)
    if (column >= linear.columns())
      refuse("range",
             "column " + std::to_string(column) + " is marked as integer, but the number of columns is " +
                 std::to_string(linear.columns()),
             "columns are numbered from 0");
  if (!options.start.empty() && options.start.size() != linear.columns())
    refuse("size",
           "a start has " + std::to_string(options.start.size()) + " values, but the number of columns is " +
               std::to_string(linear.columns()),
           "give a value for each column, or none");
  detail::Columns<CoinBigIndex> columns{linear};
  // CBC reports some unbounded programs as infeasible. A program is unbounded if its linear relaxation is unbounded and
  // it has any solution.
  const bool unbounded =
      detail::may_fall_for_ever(linear) && solve_by_simplex(linear).status == LinearSolution::Status::unbounded;
  if (unbounded) std::ranges::fill(columns.cost, 0);

  // CBC keeps its parameter parser in globals: with two threads in it, one would wait for words on standard input.
  static std::mutex one_at_a_time;
  const std::lock_guard guard{one_at_a_time};
  const std::unique_ptr<Cbc_Model, decltype(&Cbc_deleteModel)> model{Cbc_newModel(), Cbc_deleteModel};
  const auto& bounds = columns.bounds;
  Cbc_loadProblem(model.get(), static_cast<int>(linear.columns()), static_cast<int>(linear.rows()),
                  columns.starts.data(), columns.rows.data(), columns.values.data(), bounds.lower.data(),
                  bounds.upper.data(), columns.cost.data(), bounds.row_lower.data(), bounds.row_upper.data());
  for (const std::uint32_t column : program.whole) Cbc_setInteger(model.get(), static_cast<int>(column));
  Cbc_setObjSense(model.get(), 1);
  Cbc_setLogLevel(model.get(), 0);
  Cbc_setParameter(model.get(), "log", "0");
  Cbc_setParameter(model.get(), "slog", "0");
  Cbc_setParameter(model.get(), "threads", "0");
  Cbc_setAllowableFractionGap(model.get(), options.gap);
  if (options.seconds) {
    Cbc_setMaximumSeconds(model.get(), *options.seconds);
    Cbc_setParameter(model.get(), "timeMode", "elapsed");  // wall-clock time, not processor time
    // If the time limit falls within preprocessing, CBC 2.10.8 crashes in CglPreProcess::postProcess: 8 of 150 random
    // programs with limits of 0.3 to 300 ms, and none of 600 without preprocessing.
    Cbc_setParameter(model.get(), "preprocess", "off");
  }
  if (options.nodes)
    Cbc_setMaximumNodes(model.get(), static_cast<int>(std::min<std::int64_t>(*options.nodes, 1 << 30)));
  if (!options.start.empty()) {
    std::vector<int> numbers;
    for (std::size_t j = 0; j < options.start.size(); ++j) numbers.push_back(static_cast<int>(j));
    Cbc_setMIPStartI(model.get(), static_cast<int>(numbers.size()), numbers.data(), options.start.data());
  }
  bool stopped = false;
  const std::function<bool()> asked = [&] { return stopped = stopped || options.stop(); };
  if (options.stop) {
    const StopHandler handler{asked};
    model->model_->passInEventHandler(&handler);
  }
  Cbc_solve(model.get());

  using Status = IntegerSolution::Status;
  IntegerSolution solution;
  solution.nodes = Cbc_getNodeCount(model.get());
  // A stop within a node drops that node. If it was the last one, CBC reports that it is done (7 of 300 stops).
  solution.bound = stopped ? -LinearProgram::kInfinity : Cbc_getBestPossibleObjValue(model.get());
  if (!stopped && Cbc_isProvenInfeasible(model.get()) != 0) {
    solution.status = Status::infeasible;
    return solution;
  }
  const double* best = Cbc_bestSolution(model.get());
  if (program.whole.empty() && Cbc_isProvenOptimal(model.get()) != 0) best = Cbc_getColSolution(model.get());
  if (best == nullptr) return solution;
  solution.x.assign(best, best + linear.columns());
  for (std::size_t j = 0; j < linear.columns(); ++j) solution.value += linear.cost(j) * solution.x[j];
  solution.status = unbounded                                           ? Status::unbounded
                    : !stopped && Cbc_isProvenOptimal(model.get()) != 0 ? Status::optimal
                                                                        : Status::feasible;
  return solution;
} catch (const CoinError& error) {
  refuse("solver", "CBC: " + error.message(), "check the program's numbers");
}

}  // namespace trainyard
