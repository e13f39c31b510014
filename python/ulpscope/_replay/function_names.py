"""The functions of torch that a replay may call, by their exact names: a closed table.

A dump only selects a row. Functions that read or write files, load code, compile, or start anything are not
listed, and neither are those whose results are addresses or objects.
"""

# In ``torch`` and as methods of tensors; those that also exist with an underscore work in place.
SHARED = frozenset(
    """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr adjoint all amax amin aminmax angle
    any arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere asin asinh atan
    atan2 atanh baddbmm bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor bmm broadcast_to ceil cholesky cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min
    clip clone conj conj_physical copysign corrcoef cos cosh count_nonzero cov cross cummax cummin cumprod
    cumsum deg2rad det detach diag diag_embed diagflat diagonal diagonal_scatter diff digamma dist div divide
    dot dsplit eq equal erf erfc erfinv exp exp2 expm1 fix flatten flip fliplr flipud float_power floor
    floor_divide fmax fmin fmod frac frexp gather gcd ge ger greater greater_equal gt hardshrink heaviside
    histc hsplit hypot i0 igamma igammac index_add index_copy index_fill index_put index_reduce index_select
    inner inverse isclose isfinite isinf isnan isneginf isposinf isreal kron kthvalue lcm ldexp le lerp less
    less_equal lgamma log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and
    logical_not logical_or logical_xor logit logsumexp lt masked_fill masked_scatter masked_select matmul
    matrix_exp matrix_power max maximum mean median min minimum mm mode moveaxis movedim msort mul multiply mv
    mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow ne neg negative nextafter nonzero norm
    not_equal outer permute pinverse polygamma positive pow prelu prod put qr quantile rad2deg ravel
    reciprocal relu remainder renorm repeat_interleave reshape roll rot90 round rsqrt scatter scatter_add
    scatter_reduce select select_scatter sgn sigmoid sign signbit sin sinc sinh slice_scatter slogdet softmax
    sort split split_with_sizes sqrt square squeeze std sub subtract sum svd swapaxes swapdims t take
    take_along_dim tan tanh tensor_split tile topk trace transpose tril triu true_divide trunc unbind
    unflatten unique_consecutive unsqueeze var vdot vsplit where xlogy
    """.split()
)

# Only methods of tensors.
TENSOR = frozenset(
    """
    __add__ __and__ __eq__ __floordiv__ __ge__ __getitem__ __gt__ __iadd__ __iand__ __idiv__ __ifloordiv__
    __ilshift__ __imod__ __imul__ __invert__ __ior__ __ipow__ __irshift__ __isub__ __itruediv__ __ixor__
    __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pow__ __radd__ __rand__
    __rdiv__ __rfloordiv__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rshift__ __rsub__ __rtruediv__
    __rxor__ __setitem__ __sub__ __truediv__ __xor__ __div__ __abs__ __pos__
    bfloat16 bool byte char contiguous copy_ double expand expand_as fill_ fill_diagonal_ float half int long
    masked_fill_ new_full new_ones new_tensor new_zeros repeat reshape_as short squeeze_
    sum_to_size t_ to transpose_ type type_as unfold unsqueeze_ view view_as zero_
    """.split()
)

# Only in ``torch``, with ``torch.linalg``, ``torch.fft`` and ``torch.special`` as recorded.
TORCH = frozenset(
    """
    adaptive_avg_pool1d adaptive_max_pool1d arange atleast_1d atleast_2d atleast_3d avg_pool1d batch_norm
    bilinear binary_cross_entropy_with_logits block_diag broadcast_tensors bucketize cartesian_prod cat cdist
    celu chain_matmul channel_shuffle column_stack combinations complex concat concatenate constant_pad_nd
    conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
    cosine_embedding_loss cosine_similarity ctc_loss cumulative_trapezoid dstack einsum embedding
    embedding_bag eye full full_like group_norm gru gru_cell hinge_embedding_loss hstack imag
    instance_norm isin kl_div layer_norm linspace logspace lstm lstm_cell margin_ranking_loss max_pool1d
    max_pool2d max_pool3d meshgrid native_batch_norm native_group_norm native_layer_norm ones ones_like
    pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss polar real rms_norm rnn_relu
    rnn_relu_cell rnn_tanh rnn_tanh_cell rsub scalar_tensor searchsorted selu stack std_mean tensor tensordot
    threshold trapezoid trapz tril_indices triplet_margin_loss triu_indices var_mean view_as_complex
    view_as_real vstack zeros zeros_like
    fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.ihfft
    fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn
    special.entr special.erf special.erfc special.erfcx special.exp2 special.expit special.expm1
    special.gammaln special.i0 special.i0e special.i1 special.i1e special.log1p special.log_ndtr
    special.log_softmax special.logit special.logsumexp special.ndtr special.polygamma special.psi
    special.round special.sinc special.softmax special.xlog1py special.xlogy special.zeta
    """.split()
)

# In ``torch.linalg``; in dumps with the prefix ``Torch``, like those of ``torch``.
LINALG = frozenset(
    """
    cholesky cond cross det diagonal eigh eigvalsh inv lstsq lu_factor lu_solve matmul matrix_exp matrix_norm
    matrix_power matrix_rank multi_dot norm pinv qr slogdet solve solve_triangular svd svdvals tensorinv
    tensorsolve vander vecdot vector_norm
    """.split()
)

# In ``torch.nn.functional``.
FUNCTIONAL = frozenset(
    """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d affine_grid alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear
    binary_cross_entropy binary_cross_entropy_with_logits celu channel_shuffle conv1d conv2d conv3d conv_tbc
    conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy
    ctc_loss dropout dropout1d dropout2d dropout3d elu embedding embedding_bag fold gaussian_nll_loss gelu glu
    grid_sample group_norm hardshrink hardsigmoid hardswish hardtanh hinge_embedding_loss huber_loss
    instance_norm interpolate kl_div l1_loss layer_norm leaky_relu linear local_response_norm log_softmax
    logsigmoid lp_pool1d lp_pool2d margin_ranking_loss max_pool1d max_pool2d max_pool3d max_unpool1d
    max_unpool2d max_unpool3d mish mse_loss multi_margin_loss multilabel_margin_loss
    multilabel_soft_margin_loss nll_loss normalize one_hot pad pairwise_distance pdist pixel_shuffle
    pixel_unshuffle poisson_nll_loss prelu relu relu6 rms_norm rrelu scaled_dot_product_attention selu sigmoid
    silu smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink softsign tanh tanhshrink
    threshold triplet_margin_loss unfold upsample
    """.split()
)

# In ``torch._VF``.
RECURRENT = frozenset("lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell".split())

# In ``torch.ops.aten`` (level L2): those above that are operators, and the backward operators of training.
ATEN_BACKWARD = frozenset(
    """
    _log_softmax _log_softmax_backward_data _softmax _softmax_backward_data _to_copy _unsafe_view alias
    convolution_backward embedding_dense_backward gelu_backward hardswish_backward hardtanh_backward
    leaky_relu_backward max_pool2d_with_indices max_pool2d_with_indices_backward mse_loss_backward
    native_batch_norm_backward native_group_norm_backward native_layer_norm_backward nll_loss_backward
    nll_loss_forward sigmoid_backward silu_backward slice softplus_backward tanh_backward threshold_backward
    _foreach_add _foreach_addcdiv _foreach_addcmul _foreach_div _foreach_lerp _foreach_mul _foreach_sqrt
    _foreach_sub
    """.split()
)

# Their results have at most as many elements as their arguments together, or as these broadcast.
NO_LARGER = frozenset(
    """
    all amax amin any argmax argmin batch_norm bfloat16 cat chunk concat contiguous cross_entropy cumsum
    detach double dropout flatten flip float gather group_norm half instance_norm layer_norm log_softmax
    logsumexp max mean min mse_loss narrow nll_loss norm permute prod ravel reshape rms_norm roll select
    softmax sort split squeeze stack std sum swapaxes t to transpose tril triu type_as unbind unflatten
    unsqueeze var view view_as _softmax _log_softmax _to_copy _unsafe_view
    """.split()
)

# Autocast converts their arguments to a half. Where their results are float32 again, dtypes do not show it.
AUTOCAST = frozenset(
    """
    __matmul__ __rmatmul__ addbmm addmm addmv addr baddbmm bilinear bmm chain_matmul conv1d conv2d conv3d
    conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d einsum gru gru_cell inner linear lstm
    lstm_cell matmul mm multi_dot mv prelu rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell
    scaled_dot_product_attention tensordot
    """.split()
)
