"""Operators without a rule, and why: they are kept in their own layout. With the rules, and with what frontends write
as something else, this is every operator of ONNX and of ONNX Runtime's own domain.
"""

from __future__ import annotations

from collections.abc import Mapping

from layoutsolve.solver.theory.rule import CONTRIB

_ML, _TRAINING = "ai.onnx.ml", "ai.onnx.preview.training"

WRITTEN: Mapping[str, str] = {
    "CastLike": "Cast",
    "Constant": "a constant",
    "Flatten": "a view",
    "GlobalAveragePool": "ReduceMean",
    "GlobalMaxPool": "ReduceMax",
    "If": "two subgraphs, whose results take any layout",
    "Loop": "a subgraph, whose values take any layout",
    "Scan": "a subgraph, whose values take any layout",
    "Scatter": "ScatterElements",
    "Squeeze": "a view",
    "Transpose": "a view",
    "Unsqueeze": "a view",
    "Upsample": "Resize",
}
"""What is read from a file as something else that has a rule, or none at all."""

_REASONS: Mapping[str, Mapping[str, str]] = {
    "its random numbers come in the order of elements": {
        "": "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    },
    "it drops elements at random, in their order": {CONTRIB: "BiasDropout BitmaskBiasDropout BitmaskDropout"},
    "its result is a vector, or a table of given sizes": {
        "": "BlackmanWindow HammingWindow HannWindow MelWeightMatrix Range",
        CONTRIB: "Range RelativePositionBias Unique",
    },
    "it numbers elements in their order": {"": "MaxUnpool NonZero"},
    "it lists boxes in the order of batch, classes and scores": {"": "NonMaxSuppression"},
    "it reads or writes sequences": {
        "": "ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
        "SequenceMap SplitToSequence",
    },
    "it reads or writes optional values": {"": "Optional OptionalGetElement OptionalHasElement"},
    "it reads or writes dictionaries": {_ML: "CastMap DictVectorizer ZipMap"},
    "it decodes a file of an image": {"": "ImageDecoder"},
    "it takes words out of a line, or makes several of them": {
        "": "StringNormalizer",
        CONTRIB: "Tokenizer WordConvEmbedding",
    },
    "it identifies the features of a line by their place": {
        _ML: "FeatureVectorizer LinearClassifier LinearRegressor Normalizer SVMClassifier SVMRegressor TreeEnsemble "
        "TreeEnsembleClassifier TreeEnsembleRegressor",
    },
    "it has graphs in it, or is one that was compiled": {
        "ai.onnx.preview": "FlexAttention",
        CONTRIB: "BeamSearch BifurcationDetector EPContext GreedySearch Sampling Snpe WhisperBeamSearch",
    },
    "it is of training": {_TRAINING: "Adagrad Adam Gradient Momentum"},
    "it reads a sequence step by step, with heads in features and states in fixed places": {
        "": "LinearAttention",
        CONTRIB: "AttnLSTM BranchwiseRMSNorm CausalConvWithState ConvStateReplay DynamicQuantizeLSTM EngramGate "
        "GatedDeltaNet GatedDeltaNetStateReplay GatedRMSNorm LinearAttention LinearAttentionGate Mamba2Verify "
        "RMSNormRotary SpeculativePrefixCommit VarlenCausalConvWithState VarlenNGramHashMapping",
    },
    "its kernels take batch, sequence, heads and caches in fixed places": {
        CONTRIB: "DecoderAttention DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention DynamicSparseAttention "
        "GatedRelativePositionBias GatherPacked GroupQueryAttention HyperConnectionLowRankMix HyperConnectionPostMix "
        "HyperConnectionPreMix LongformerAttention MRotaryEmbedding NGramHashMapping NGramRepeatBlock PackedAttention "
        "PackedMultiHeadAttention PackedSparseAttentionIndexer PackedSparseAttentionIndexerMerge PagedAttention "
        "QOrderedAttention QOrderedLongformerAttention RemovePadding RestorePadding SparseAttention "
        "SparseAttentionIndexer SparsePagedAttention QEmbedLayerNormalization",
    },
    "its experts are chosen for each line, by weights that are packed": {
        CONTRIB: "MoE MoEGroupRouter MoEPacked QMoE RouterGateUpProj",
    },
    "its weights are packed in an order of their own": {
        CONTRIB: "GatherBlockQuantized MatMulBlockQuantizedFp4Weight MatMulBlockQuantizedFp8Weight MatMulFpQ4 "
        "MatMulNBitsMlp MatMulNBitsQLoRA MatMulNBitsQkv MatMulPacked QOrderedGelu QOrderedLayerNormalization "
        "QOrderedMatMul QuantizeBFP QuantizeWithOrder DequantizeBFP DequantizeWithOrder",
    },
    "it aligns two sequences, along a path": {CONTRIB: "DynamicTimeWarping"},
    "it makes a last dimension of windows along another one": {CONTRIB: "UnfoldTensor"},
    "it reads a sparse tensor": {CONTRIB: "SparseToDenseMatMul"},
    "its axis is an input": {CONTRIB: "ExpandDims"},
    "ONNX Runtime has no kernel of it for processors, by which a rule could be tried": {
        CONTRIB: "BiasAdd BiasSoftmax BiasSplitGelu ComplexMul ComplexMulConj FusedMatMulActivation GemmFastGelu "
        "GemmFloat8 GemmaRotaryEmbedding GroupNorm Irfft IsAllFinite MulInteger NhwcConv NhwcFusedConv "
        "QLinearReduceMean ReduceSumInteger Rfft SkipGroupNorm SwiGLU TorchEmbedding",
    },
}

UNRULED: Mapping[str, str] = {
    f"{domain}:{name}" if domain else name: reason
    for reason, domains in _REASONS.items()
    for domain, names in domains.items()
    for name in names.split()
}
"""Operators that have no rule, as rules name them, and why not."""
